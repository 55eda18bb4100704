//! The stream of `filesystem.Filesystem/WatchDir`, as the bytes on the socket have it.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use holm_wire::connect::{Decoder, EndOfStream, envelope};
use holm_wire::filesystem::{EventType, FileType, FilesystemEvent, WatchRequest, WatchResponse};
use holm_wire::paths::filesystem::WATCH_DIR;

use crate::harness::{Guest, HANG, with_guest};

/// What a frame of the stream says.
#[derive(Debug)]
enum Said {
    Message(Box<WatchResponse>),
    End(EndOfStream),
}

/// A stream that is being read.
struct Stream {
    from: BufReader<UnixStream>,
    /// Length of a body that is known at once, as that of an error.
    fixed: Option<usize>,
    decoder: Decoder,
    ready: VecDeque<Said>,
}

impl Stream {
    fn open(guest: &Guest, path: &str, recursive: bool) -> Self {
        let request = WatchRequest { path: path.into(), recursive };
        let body = envelope(0, &serde_json::to_vec(&request).unwrap());
        let mut socket = UnixStream::connect(guest.socket()).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        let head = format!(
            "POST {WATCH_DIR} HTTP/1.1\r\nHost: guest\r\nContent-Length: {}\r\n\
             Content-Type: application/connect+json\r\nKeepalive-Ping-Interval: 1\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&body).unwrap();
        let mut stream = Self {
            from: BufReader::new(socket),
            fixed: None,
            decoder: Decoder::new(1 << 20),
            ready: VecDeque::new(),
        };
        let status = stream.line();
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        let head: Vec<String> =
            std::iter::from_fn(|| Some(stream.line()).filter(|line| !line.is_empty())).collect();
        let has = |header: &str| head.iter().any(|line| line.eq_ignore_ascii_case(header));
        assert!(has("content-type: application/connect+json"), "{head:?}");
        stream.fixed =
            head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        assert!(stream.fixed.is_some() || has("transfer-encoding: chunked"), "{head:?}");
        stream
    }

    /// A stream whose watch is set.
    fn started(guest: &Guest, path: &str, recursive: bool) -> Self {
        let mut stream = Self::open(guest, path, recursive);
        let first = stream.said();
        let is_start = |message: &WatchResponse| matches!(message, WatchResponse::Start(_));
        assert!(matches!(&first, Said::Message(message) if is_start(message)), "{first:?}");
        stream
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the connection ended: {line:?}");
        line.trim_end().to_owned()
    }

    fn said(&mut self) -> Said {
        loop {
            if let Some(said) = self.ready.pop_front() {
                return said;
            }
            let length =
                self.fixed.unwrap_or_else(|| usize::from_str_radix(&self.line(), 16).unwrap());
            assert_ne!(length, 0, "the body ended without an end frame");
            let mut chunk = vec![0; length];
            self.from.read_exact(&mut chunk).unwrap();
            if self.fixed.is_none() {
                assert_eq!(self.line(), "");
            }
            self.decoder.push(&chunk);
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                let (text, end) = (&frame.payload, frame.end);
                self.ready.push_back(if end {
                    Said::End(serde_json::from_slice(text).unwrap())
                } else {
                    Said::Message(Box::new(serde_json::from_slice(text).unwrap()))
                });
            }
        }
    }

    /// The next change.
    fn event(&mut self) -> FilesystemEvent {
        loop {
            let Said::Message(message) = self.said() else { panic!("the stream ended") };
            match *message {
                WatchResponse::Filesystem(event) => return event,
                WatchResponse::Keepalive(_) => {}
                WatchResponse::Start(_) => panic!("a second start"),
            }
        }
    }

    /// These changes, in this order, and no other before them.
    fn expect(&mut self, wanted: &[(&str, EventType)]) -> Vec<FilesystemEvent> {
        let events: Vec<_> = wanted.iter().map(|_| self.event()).collect();
        let seen: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.r#type)).collect();
        assert_eq!(seen, wanted);
        events
    }
}

/// Watches that the guest has open.
fn watches(guest: &Guest) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", guest.pid())).unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|to| to.as_os_str() == "anon_inode:inotify")
        .count()
}

#[test]
fn a_stream_tells_changes_below_in_order() {
    with_guest(async |guest| {
        use EventType::{Chmod, Create, Remove, Rename, Write};
        let at = |name: &str| guest.work.join(name);
        std::fs::create_dir_all(at("there/deep")).unwrap();
        let mut stream = Stream::started(guest, ".", true);

        std::fs::write(at("f"), "12345").unwrap();
        let events = stream.expect(&[("f", Create), ("f", Write)]);
        let entry = events[1].entry.as_ref().expect("it is still there");
        assert_eq!((entry.name.as_str(), entry.r#type, entry.size), ("f", FileType::File, 5));
        assert_eq!(entry.path, guest.path("f"));

        std::fs::set_permissions(at("f"), Permissions::from_mode(0o640)).unwrap();
        let events = stream.expect(&[("f", Chmod)]);
        assert_eq!(events[0].entry.as_ref().unwrap().permissions, "-rw-r-----");

        std::fs::rename(at("f"), at("there/deep/g")).unwrap();
        let events = stream.expect(&[("f", Rename), ("there/deep/g", Create)]);
        assert_eq!(events[0].entry, None, "nothing has the old name");
        let entry = events[1].entry.as_ref().unwrap();
        assert_eq!((entry.name.as_str(), entry.size), ("g", 5));
        assert_eq!(entry.path, guest.path("there/deep/g"));

        // Once the new directory is told, it is watched as well.
        std::fs::create_dir(at("new")).unwrap();
        let events = stream.expect(&[("new", Create)]);
        assert_eq!(events[0].entry.as_ref().unwrap().r#type, FileType::Directory);
        std::os::unix::fs::symlink("nowhere", at("new/l")).unwrap();
        let events = stream.expect(&[("new/l", Create)]);
        assert_eq!(
            events[0].entry.as_ref().unwrap().symlink_target.as_deref(),
            Some("nowhere"),
            "a link is told of, not what it leads to"
        );
        std::fs::remove_file(at("new/l")).unwrap();
        assert_eq!(stream.expect(&[("new/l", Remove)])[0].entry, None);
        std::fs::remove_dir(at("new")).unwrap();
        assert_eq!(stream.expect(&[("new", Remove)])[0].entry, None);
    });
}

#[test]
fn a_stream_of_one_level_tells_nothing_below() {
    with_guest(async |guest| {
        std::fs::create_dir(guest.work.join("d")).unwrap();
        let mut stream = Stream::started(guest, ".", false);
        std::fs::write(guest.work.join("d/hidden"), "x").unwrap();
        std::fs::create_dir(guest.work.join("e")).unwrap();
        stream.expect(&[("e", EventType::Create)]);
        std::fs::write(guest.work.join("e/hidden"), "x").unwrap();
        std::fs::rename(guest.work.join("d"), guest.work.join("h")).unwrap();
        stream.expect(&[("d", EventType::Rename), ("h", EventType::Create)]);
    });
}

#[test]
fn a_silent_stream_says_that_it_lives() {
    with_guest(async |guest| {
        let mut stream = Stream::started(guest, ".", true);
        for _ in 0..2 {
            let said = stream.said();
            let Said::Message(message) = said else { panic!("the stream ended: {said:?}") };
            assert!(matches!(*message, WatchResponse::Keepalive(_)), "{message:?}");
        }
    });
}

#[test]
fn what_cannot_be_watched_says_why() {
    with_guest(async |guest| {
        std::fs::write(guest.work.join("file"), "x").unwrap();
        for (path, code) in [("none", "not_found"), ("file", "invalid_argument")] {
            match Stream::open(guest, path, true).said() {
                Said::End(EndOfStream { error: Some(error), .. }) => {
                    let told = serde_json::to_value(&error).unwrap();
                    assert_eq!(told["code"], code, "{path}: {error:?}");
                    assert!(error.message.contains(path), "{error:?}");
                }
                other => panic!("{path}: {other:?}"),
            }
        }
        assert_eq!(watches(guest), 0);
    });
}

#[test]
fn a_watch_ends_with_its_stream() {
    with_guest(async |guest| {
        let mut streams: Vec<_> = (0..5).map(|_| Stream::started(guest, ".", true)).collect();
        assert_eq!(watches(guest), 5);
        // One leaves in silence, the others with changes that they have not read.
        drop(streams.pop());
        let began = Instant::now();
        let until = async |count| {
            while watches(guest) != count {
                assert!(began.elapsed() < HANG, "{} watches are left", watches(guest));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        until(4).await;
        std::fs::write(guest.work.join("f"), "x").unwrap();
        streams.truncate(1);
        until(1).await;
        streams[0].expect(&[("f", EventType::Create), ("f", EventType::Write)]);
        streams.clear();
        until(0).await;
    });
}
