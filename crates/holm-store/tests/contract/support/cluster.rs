//! A private PostgreSQL: in a temporary directory, on a socket in it, as an unprivileged user.
//!
//! A small keeper process starts it, and removes all of it when its standard input ends: that
//! is when this process ends, in whatever way.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// `$1`: the directory of the programs; `$2`: a TCP port with TLS, or nothing.
const KEEPER: &str = r#"
set -eu
umask 077
place=$(mktemp -d /tmp/holm-postgres.XXXXXX)
server=
cleanup() {
  trap - EXIT INT TERM HUP
  if [ -n "$server" ]; then kill -INT "$server" 2>/dev/null || true; wait "$server" || true; fi
  cd /
  rm -rf "$place"
}
trap cleanup EXIT INT TERM HUP
cd "$place"
"$1/initdb" -D data -U holm -A trust -E UTF8 --no-locale --no-sync >initdb.log 2>&1 ||
  { cat initdb.log >&2; exit 1; }
{
  echo "unix_socket_directories = '$place'"
  echo "fsync = off"
  echo "max_connections = 200"
  echo "listen_addresses = ''"
} >>data/postgresql.conf
if [ -n "$2" ]; then
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=holm-test-ca \
    -keyout ca.key -out ca.pem 2>openssl.log
  openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout data/server.key -out server.csr \
    2>>openssl.log
  printf 'subjectAltName=DNS:localhost\n' >names
  openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
    -extfile names -out data/server.crt 2>>openssl.log
  printf "listen_addresses = '127.0.0.1'\nport = $2\nssl = on\n" >>data/postgresql.conf
fi
"$1/postgres" -D data >server.log 2>&1 &
server=$!
until "$1/pg_isready" -q -h "$place" ${2:+-p "$2"}; do
  kill -0 "$server" 2>/dev/null || { cat server.log >&2; exit 1; }
done
echo "$place"
read -r _end || true
"#;

/// What a cluster is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Socket,
    /// Also on this port, with TLS.
    Tls(u16),
}

/// A running one. Dropped, or left to the end of the process, it goes.
pub struct Cluster {
    keeper: Child,
    pub place: PathBuf,
}

impl Cluster {
    /// Starts one; nothing where PostgreSQL is not installed.
    fn try_start(kind: Kind) -> Option<Self> {
        let programs = programs()?;
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh"]);
            command
        } else {
            Command::new("sh")
        };
        let port = match kind {
            Kind::Socket => String::new(),
            Kind::Tls(port) => port.to_string(),
        };
        command.arg("-c").arg(KEEPER).arg("keeper").arg(programs).arg(port);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        // So that an interrupt from the terminal ends this process, and the keeper by its input.
        command.process_group(0);
        let mut keeper = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with('/'), "the keeper of PostgreSQL failed, see above");
        Some(Self { keeper, place: line.trim_end().into() })
    }

    /// Starts one; nothing where PostgreSQL is not installed, which is said.
    pub fn start(kind: Kind) -> Option<Self> {
        said(Self::try_start(kind))
    }

    /// The URL of a database of that name; `postgres` is there from the start.
    pub fn url(&self, name: &str) -> String {
        let socket = self.place.display().to_string().replace('/', "%2F");
        format!("postgres://holm@{socket}/{name}")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().ok();
    }
}

/// The cluster of this process, started by whoever needs it first.
pub fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    said(SHARED.get_or_init(|| Cluster::try_start(Kind::Socket)).as_ref())
}

fn said<T>(cluster: Option<T>) -> Option<T> {
    if cluster.is_none() {
        println!("SKIP postgres: not installed (package postgresql)");
    }
    cluster
}

/// Debian keeps the server's programs beside the search path, one directory per version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    places.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    places.splice(0..0, std::env::split_paths(&path));
    places.into_iter().rev().find(|place| is_there(place))
}

fn is_there(place: &Path) -> bool {
    ["initdb", "postgres", "pg_isready"].iter().all(|name| place.join(name).is_file())
}
