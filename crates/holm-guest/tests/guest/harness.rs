//! A guest for one test, gone with all that it started when the test ends.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use holm_wire::client::GuestClient;
use holm_wire::guest::{Captured, Configure, RunRequest, RunResponse};

/// Ten times what anything here should take.
pub const HANG: Duration = Duration::from_secs(60);

pub struct Guest {
    pub client: GuestClient,
    pub work: PathBuf,
    directory: PathBuf,
    process: Child,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Runs a test against a guest of its own.
pub fn with_guest<F: AsyncFnOnce(&Guest)>(test: F) {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("hg-{}-{number}", std::process::id()));
    let work = directory.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let socket = directory.join("s");
    let process = Command::new(env!("CARGO_BIN_EXE_holm-guest"))
        .args(["serve", "--socket"])
        .arg(&socket)
        .arg("--workdir")
        .arg(&work)
        .arg("--home")
        .arg(&work)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let guest = Guest { client: GuestClient::new(&socket), work, directory, process };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let workdir = guest.work.display().to_string();
        let settings = Configure { workdir, ..Configure::default() };
        while let Err(error) = guest.client.configure(&settings).await {
            assert!(began.elapsed() < HANG, "the guest does not answer: {error}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::timeout(HANG, test(&guest)).await.expect("the test hangs");
    });
}

impl Guest {
    /// Runs a shell command; it must be startable.
    pub async fn sh(&self, script: &str) -> RunResponse {
        self.run(request(&["sh", "-c", script])).await
    }

    pub async fn run(&self, request: RunRequest) -> RunResponse {
        self.client.run(&request).await.unwrap_or_else(|error| panic!("{request:?}: {error}"))
    }

    /// A path in the working directory, as text.
    pub fn path(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    pub fn socket(&self) -> &Path {
        self.client.socket()
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends bytes and reads to the end of the connection.
    pub fn raw(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(&self.raw_bytes(bytes)).into_owned()
    }

    /// The same for an answer that is not text.
    pub fn raw_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A connection that the guest closes with bytes unread ends in an error; what came before
        // it counts.
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// One HTTP request; gives status and body.
    pub fn http(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> (u16, String) {
        let mut bytes = format!(
            "{method} {target} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\
             Content-Length: {}\r\n{headers}\r\n",
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        let answer = self.raw(&bytes);
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    /// Waits until no process whose command line holds `mark` is left.
    pub async fn wait_gone(&self, mark: &str) {
        let began = Instant::now();
        while running(mark) > 0 {
            assert!(began.elapsed() < HANG, "{mark} still runs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Processes below the guest in a state.
    pub fn children_in_state(&self, state: &str) -> usize {
        let parent = self.pid().to_string();
        stats().filter(|fields| fields[1] == parent && fields[0] == state).count()
    }
}

/// State and parent of every process.
fn stats() -> impl Iterator<Item = Vec<String>> {
    processes().filter_map(|pid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let rest = text.rsplit_once(") ")?.1.to_owned();
        Some(rest.split(' ').take(2).map(str::to_owned).collect())
    })
}

fn processes() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// How many processes hold `mark` in their command line.
pub fn running(mark: &str) -> usize {
    processes()
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ").contains(mark)
        })
        .count()
}

pub fn request(argv: &[&str]) -> RunRequest {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    RunRequest { argv, ..RunRequest::default() }
}

pub fn with_timeout(script: &str, timeout_ms: u64) -> RunRequest {
    RunRequest { timeout_ms, ..request(&["sh", "-c", script]) }
}

pub fn text(captured: &Captured) -> String {
    assert_eq!(captured.dropped(), 0, "output was cut");
    String::from_utf8(captured.head.clone()).unwrap()
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
