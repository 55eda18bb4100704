//! Files up and down.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

use holm_wire::client::ClientError;
use holm_wire::connect::Code;
use holm_wire::reason::Reason;

use crate::harness::{Guest, with_guest};

async fn put(
    guest: &Guest,
    path: &str,
    mode: Option<u32>,
    bytes: &[u8],
) -> Result<u64, ClientError> {
    let bytes = bytes.to_vec().into();
    guest.client.write_file(path, "", mode, bytes).await.map(|written| written.size)
}

async fn get(guest: &Guest, path: &str) -> Result<Vec<u8>, ClientError> {
    guest.client.read_file(path, "", 0, 0).await?.read_to_end(64 << 20).await
}

fn refused(what: &str, result: Result<impl std::fmt::Debug, ClientError>) -> String {
    match result {
        Err(ClientError::Guest(error)) => {
            assert_eq!(error.code, Code::InvalidArgument, "{what}: {}", error.message);
            error.message
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn case_27_names_are_confined_or_refused() {
    with_guest(async |guest| {
        for name in ["", "a\0b", &"n".repeat(300), &"d/".repeat(2600), ".", "..", "dir/", "/"] {
            refused(name, put(guest, name, None, b"x").await);
            refused(name, get(guest, name).await);
        }
        for (name, at) in [("..%2f..%2fx", "..%2f..%2fx"), ("a\\b", "a\\b"), ("s/../t", "t")] {
            std::fs::create_dir_all(guest.work.join("s")).unwrap();
            put(guest, name, None, b"x").await.unwrap();
            assert_eq!(std::fs::read(guest.work.join(at)).unwrap(), b"x", "{name}");
        }
    });
}

#[test]
fn case_28_only_regular_files_are_read_and_written() {
    with_guest(async |guest| {
        let made = guest
            .sh("mkfifo pipe; mkdir dir; python3 -c \"import socket; \
            socket.socket(socket.AF_UNIX).bind('sock')\"")
            .await;
        assert_eq!(made.exit_code, 0);
        for path in ["pipe", "dir", "sock", "/dev/zero", "/dev/random", "/proc/self/mem"] {
            refused(path, get(guest, path).await);
        }
        for path in ["pipe", "dir", "sock", "/dev/null"] {
            refused(path, put(guest, path, None, b"x").await);
        }
        assert!(std::fs::metadata(guest.work.join("pipe")).unwrap().file_type().is_fifo());
        // Many at once do not use the threads up.
        let many: Vec<_> = (0..50)
            .map(|_| {
                let client = guest.client.clone();
                tokio::spawn(async move { client.read_file("pipe", "", 0, 0).await.is_err() })
            })
            .collect();
        for one in many {
            assert!(one.await.unwrap());
        }
        let version = get(guest, "/proc/version").await.unwrap();
        assert!(version.starts_with(b"Linux"), "files that the kernel makes up are read");
    });
}

#[test]
fn case_27_nothing_is_made_on_the_way_to_somewhere_else() {
    with_guest(async |guest| {
        guest
            .sh("mkfifo pipe; mkdir -p there/below; ln -s there/below link; ln -s no/where lost")
            .await;
        let names = || {
            let list = std::fs::read_dir(&guest.work).unwrap();
            let mut names: Vec<_> = list.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let before = names();
        for path in ["a/../pipe", "a/b/../../pipe", "a/..", "a/../there", "there/a/../../pipe"] {
            refused(path, put(guest, path, None, b"x").await);
            assert_eq!(names(), before, "{path}");
        }
        for path in ["lost/../f", "lost/a/../f", "lost/../there/f"] {
            assert!(put(guest, path, None, b"x").await.is_err(), "{path}");
            assert_eq!(names(), before, "{path}");
        }
        // Links that exist mean what the kernel says: this is `there/f`.
        put(guest, "link/../f", None, b"x").await.unwrap();
        assert_eq!(std::fs::read(guest.work.join("there/f")).unwrap(), b"x");
        assert_eq!(names(), before);
        put(guest, "a/b/../../c/../d/e", None, b"y").await.unwrap();
        assert_eq!(std::fs::read(guest.work.join("d/e")).unwrap(), b"y");
        assert_eq!(names().len(), before.len() + 1, "only `d` is new");
    });
}

#[test]
fn case_30_sizes_and_quotes_do_not_matter() {
    with_guest(async |guest| {
        let text = "'\" $(id) `id` \\ \r\n";
        for size in [0, 1, 127 << 10, 128 << 10, 129 << 10, (1 << 20) + 1, 20 << 20] {
            let bytes: Vec<u8> = text.bytes().cycle().take(size).collect();
            assert_eq!(put(guest, "deep/er/f", None, &bytes).await.unwrap(), size as u64);
            assert!(get(guest, "deep/er/f").await.unwrap() == bytes, "{size} bytes differ");
        }
        assert_eq!(std::fs::read_dir(guest.work.join("deep/er")).unwrap().count(), 1);
    });
}

#[test]
fn case_31_bytes_come_back_exactly() {
    with_guest(async |guest| {
        let all: Vec<u8> = (0..=255).collect();
        let utf16: Vec<u8> = "h\u{e9}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for bytes in [&all[..], &utf16, b"\xef\xbb\xbfbom", b""] {
            put(guest, "b", None, bytes).await.unwrap();
            assert_eq!(get(guest, "b").await.unwrap(), bytes);
        }
    });
}

#[test]
fn parts_of_a_file_can_be_read() {
    with_guest(async |guest| {
        let bytes: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        put(guest, "n", Some(0o600), &bytes).await.unwrap();
        for (offset, limit) in
            [(0, 1), (3, 10), (3_999_999, 10), (4_000_000, 10), (9_000_000, 0), (1, 2_000_000)]
        {
            let file = guest.client.read_file("n", "", offset, limit).await.unwrap();
            assert_eq!((file.size, file.mode), (4_000_000, 0o600));
            let start = usize::try_from(offset).unwrap().min(bytes.len());
            let most = if limit == 0 { bytes.len() } else { usize::try_from(limit).unwrap() };
            let end = (start + most).min(bytes.len());
            let got = file.read_to_end(8 << 20).await.unwrap();
            assert!(got == bytes[start..end], "{offset} {limit}");
        }
    });
}

#[test]
fn case_33_modes_and_links_are_kept() {
    with_guest(async |guest| {
        let mode = |name: &str| {
            std::fs::metadata(guest.work.join(name)).unwrap().permissions().mode() & 0o7777
        };
        put(guest, "new", None, b"1").await.unwrap();
        assert_eq!(mode("new"), 0o644);
        put(guest, "run", Some(0o755), b"#!/bin/sh\necho ran").await.unwrap();
        put(guest, "run", None, b"#!/bin/sh\necho again").await.unwrap();
        assert_eq!(mode("run"), 0o755);
        assert_eq!(guest.sh("./run").await.stdout.head, b"again\n");
        put(guest, "run", Some(0o6755), b"x").await.unwrap();
        assert_eq!(mode("run"), 0o755, "no set-id bits");
        guest.sh("chmod 400 run; mkdir -m 700 own").await;
        put(guest, "run", None, b"y").await.unwrap();
        assert_eq!(
            (mode("run"), std::fs::read(guest.work.join("run")).unwrap()),
            (0o400, b"y".to_vec())
        );
        put(guest, "own/f", None, b"z").await.unwrap();
        symlink("own/f", guest.work.join("link")).unwrap();
        put(guest, "link", None, b"through").await.unwrap();
        assert_eq!(std::fs::read(guest.work.join("own/f")).unwrap(), b"through");
        assert!(guest.work.join("link").is_symlink());
        symlink("loop", guest.work.join("loop")).unwrap();
        refused("loop", put(guest, "loop", None, b"x").await);
    });
}

#[test]
fn case_30_files_come_in_parts_of_any_size() {
    with_guest(async |guest| {
        let bytes: Vec<u8> = (0..(3_u32 << 20) + 7).map(|n| n.to_le_bytes()[1]).collect();
        for (size, part) in
            [(0, 1), (1, 1), (5000, 1), (bytes.len(), 70_001), (bytes.len(), 1 << 20)]
        {
            for length in [None, Some(size as u64)] {
                let mut upload = guest.client.upload("d/f", "", Some(0o600), length).await.unwrap();
                for part in bytes[..size].chunks(part) {
                    upload.write(part).await.unwrap();
                }
                assert_eq!(upload.finish().await.unwrap().size, size as u64);
                let got = std::fs::read(guest.work.join("d/f")).unwrap();
                assert!(got == bytes[..size], "{size} bytes in parts of {part} differ");
            }
        }
        assert_eq!(std::fs::read_dir(guest.work.join("d")).unwrap().count(), 1);
    });
}

#[test]
fn an_upload_that_cannot_go_on_says_why() {
    with_guest(async |guest| {
        refused("a directory", guest.client.upload("d/", "", None, None).await);
        let limit = std::process::Command::new("prlimit")
            .args(["--fsize=1000000", "--pid", &guest.pid().to_string()])
            .status();
        assert!(limit.unwrap().success());
        let mut upload = guest.client.upload("f", "", None, Some(64 << 20)).await.unwrap();
        let part = vec![0; 1 << 20];
        let error = loop {
            if let Err(error) = upload.write(&part).await {
                break error;
            }
        };
        let ClientError::Guest(error) = error else { panic!("{error:?}") };
        assert_eq!(error.reason, Some(Reason::TooLarge), "{error}");
        assert_eq!(std::fs::read_dir(&guest.work).unwrap().count(), 0);
    });
}

#[test]
fn a_cut_upload_leaves_nothing() {
    with_guest(async |guest| {
        put(guest, "f", None, b"old").await.unwrap();
        for length in [None, Some(5 << 20)] {
            let mut upload = guest.client.upload("f", "", None, length).await.unwrap();
            upload.write(&vec![b'n'; 1 << 20]).await.unwrap();
            assert_eq!(std::fs::read_dir(&guest.work).unwrap().count(), 2);
            if length.is_some() {
                assert!(upload.finish().await.is_err(), "less than was announced");
            }
        }
        let mut upload = guest.client.upload("f", "", None, Some(3)).await.unwrap();
        assert!(upload.write(b"four").await.is_err(), "more than was announced");
        drop(upload);
        let began = std::time::Instant::now();
        while std::fs::read_dir(&guest.work).unwrap().count() != 1 {
            assert!(began.elapsed() < crate::harness::HANG, "a temporary file is left");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(std::fs::read(guest.work.join("f")).unwrap(), b"old");
    });
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    with_guest(async |guest| {
        // /dev/full-like behaviour needs a small file system; the file size limit of the guest's
        // own process is the portable stand-in: it fails in the middle of the content as well.
        let limit = std::process::Command::new("prlimit")
            .args(["--fsize=1000000", "--pid", &guest.pid().to_string()])
            .status();
        assert!(limit.unwrap().success());
        // The signal that goes with it would end the guest, were it not ignored.
        let result = put(guest, "big", None, &vec![0; 2 << 20]).await;
        match result {
            Err(ClientError::Guest(error)) => {
                let want = (Code::ResourceExhausted, Some(Reason::TooLarge));
                assert_eq!((error.code, error.reason), want, "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(std::fs::read_dir(&guest.work).unwrap().count(), 0);
        put(guest, "small", None, b"x").await.unwrap();
    });
}
