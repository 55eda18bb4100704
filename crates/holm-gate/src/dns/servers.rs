//! Whom the gate asks: given servers, or those of the host's resolver file as it is now. A stub on
//! loopback is fine: the gate runs on the host, only its answer is passed on.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// As many as other resolvers take.
const MOST: usize = 3;
/// The most that is read of the file.
const LONGEST_FILE: u64 = 64 * 1024;
const PORT: u16 = 53;

/// The servers, and which of them answered last.
#[derive(Debug)]
pub(crate) struct Servers {
    source: Source,
    first: AtomicUsize,
}

#[derive(Debug)]
enum Source {
    Given(Vec<SocketAddr>),
    File { path: PathBuf, seen: Mutex<Seen> },
}

/// A version of the file.
#[derive(Debug, Default)]
struct Seen {
    version: Option<(SystemTime, u64)>,
    servers: Vec<SocketAddr>,
}

impl Servers {
    /// Always these.
    pub(crate) fn given(servers: Vec<SocketAddr>) -> Self {
        Self { source: Source::Given(servers), first: AtomicUsize::new(0) }
    }

    /// Those of the host.
    pub(crate) fn of_host() -> Self {
        Self::file("/etc/resolv.conf")
    }

    /// Those of this file, read again when it changes.
    fn file(path: impl Into<PathBuf>) -> Self {
        let source = Source::File { path: path.into(), seen: Mutex::default() };
        Self { source, first: AtomicUsize::new(0) }
    }

    /// Whom to ask, in this order: the one that answered last comes first, so that a dead one is
    /// waited for once only.
    pub(crate) fn now(&self) -> Vec<SocketAddr> {
        let mut servers = match &self.source {
            Source::Given(servers) => servers.clone(),
            Source::File { path, seen } => {
                let mut seen = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let version = std::fs::metadata(path)
                    .and_then(|meta| Ok((meta.modified()?, meta.len())))
                    .ok();
                if seen.servers.is_empty() || seen.version != version {
                    let mut text = String::new();
                    let file = std::fs::File::open(path);
                    let read =
                        file.and_then(|file| file.take(LONGEST_FILE).read_to_string(&mut text));
                    // While somebody replaces it, what was there before holds.
                    if read.is_ok() || seen.servers.is_empty() {
                        seen.servers = parse(&text);
                        seen.version = version;
                        self.first.store(0, Ordering::Relaxed);
                    }
                }
                seen.servers.clone()
            }
        };
        let first = self.first.load(Ordering::Relaxed);
        if first < servers.len() {
            servers.rotate_left(first);
        }
        servers
    }

    /// This one answered.
    pub(crate) fn prefer(&self, server: SocketAddr) {
        let before = self.now();
        if before.first() == Some(&server) {
            return;
        }
        if let Some(ahead) = before.iter().position(|it| *it == server) {
            let first = self.first.load(Ordering::Relaxed);
            self.first.store((first + ahead) % before.len(), Ordering::Relaxed);
        }
    }
}

/// The servers that such a file names; the one of this machine where it names none.
fn parse(text: &str) -> Vec<SocketAddr> {
    let mut servers: Vec<SocketAddr> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = (words.next() == Some("nameserver")).then(|| words.next()).flatten()?;
            Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, PORT))
        })
        .take(MOST)
        .collect();
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_those_of_the_file() {
        let check = |text: &str, expected: &[&str]| {
            let expected: Vec<SocketAddr> =
                expected.iter().map(|text| text.parse().expect("an address")).collect();
            assert_eq!(parse(text), expected, "{text}");
        };
        check("nameserver 127.0.0.53\noptions edns0\n", &["127.0.0.53:53"]);
        check(
            "# nameserver 192.0.2.1\nsearch a.example\n nameserver\t2001:db8::1 \nnameserver 192.0.2.2",
            &["[2001:db8::1]:53", "192.0.2.2:53"],
        );
        check(
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4",
            &["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"],
        );
        check("nameserver here\nnameserver fe80::1%eth0", &["127.0.0.1:53"]);
        check("", &["127.0.0.1:53"]);
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let path = std::env::temp_dir().join(format!("holm-resolv-{}", std::process::id()));
        let servers = Servers::file(&path);
        let check = |text: Option<&str>, expected: &str| {
            if let Some(text) = text {
                std::fs::write(&path, text).expect("a file");
            }
            assert_eq!(servers.now()[0], expected.parse().expect("an address"), "{text:?}");
        };
        check(None, "127.0.0.1:53");
        check(Some("nameserver 192.0.2.1\nnameserver 192.0.2.11"), "192.0.2.1:53");
        servers.prefer("192.0.2.11:53".parse().expect("an address"));
        check(None, "192.0.2.11:53");
        check(Some("nameserver 192.0.2.2"), "192.0.2.2:53");
        std::fs::remove_file(&path).expect("removed");
        check(None, "192.0.2.2:53");
    }

    #[test]
    fn the_one_that_answered_comes_first() {
        let [a, b, c] = [1, 2, 3].map(|last| SocketAddr::from(([192, 0, 2, last], 53)));
        let servers = Servers::given(vec![a, b, c]);
        servers.prefer(b);
        assert_eq!(servers.now(), [b, c, a]);
        servers.prefer(a);
        assert_eq!(servers.now(), [a, b, c]);
        servers.prefer("192.0.2.9:53".parse().expect("an address"));
        assert_eq!(servers.now(), [a, b, c]);
    }
}
