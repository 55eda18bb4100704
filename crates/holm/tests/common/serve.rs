//! A running `holm serve`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::home::{self, Home};

/// A running service.
pub struct Serve {
    child: Child,
    /// Ends what it leaves.
    drain: Command,
    /// Its client with the first key.
    client: Client,
    /// What it printed when it was ready.
    pub announced: String,
    errors: Arc<Mutex<Vec<u8>>>,
    /// What it prints to standard output after that.
    more: Option<JoinHandle<Vec<u8>>>,
    ended: bool,
}

impl Home {
    /// A service on a free port of loopback. Its sandboxes end with an orderly stop, unless the
    /// test asks for something else.
    pub fn serve(&self, arguments: &[&str], env: &[(&str, &str)]) -> Serve {
        self.serve_by(self.command(), arguments, env)
    }

    /// The same in the network of another process.
    pub fn serve_in(&self, network: u32, arguments: &[&str], env: &[(&str, &str)]) -> Serve {
        let mut command = self.command_of(Path::new("nsenter"));
        command.arg(format!("--net=/proc/{network}/ns/net")).arg(&self.program);
        self.serve_by(command, arguments, env)
    }

    fn serve_by(&self, mut command: Command, arguments: &[&str], env: &[(&str, &str)]) -> Serve {
        command.args(["serve", "--port", "0"]).args(arguments).envs(env.iter().copied());
        if !arguments.contains(&"--on-stop") {
            command.args(["--on-stop", "end"]);
        }
        let mut drain = self.command();
        drain.arg("drain").envs(env.iter().copied());
        if let Some(at) = arguments.iter().position(|argument| *argument == "--database") {
            drain.args(&arguments[at..at + 2]);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("holm serve starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut stderr = child.stderr.take().expect("piped");
        let errors = Arc::<Mutex<Vec<u8>>>::default();
        let for_err = Arc::clone(&errors);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                for_err.lock().expect("no panic inside").extend_from_slice(&buffer[..read]);
            }
        });
        let mut announced = String::new();
        while !announced.ends_with("\n}\n") {
            let read = stdout.read_line(&mut announced).expect("text");
            let said = String::from_utf8_lossy(&errors.lock().expect("no panic")).into_owned();
            assert!(read > 0, "holm serve ended: {said}");
        }
        let url = announced.lines().next().and_then(|line| line.split("://").nth(1));
        let address = url.and_then(|url| url.strip_suffix("/mcp")).expect("a URL");
        let address = address.parse().expect("an address");
        let more = Some(thread::spawn(move || {
            let mut rest = Vec::new();
            stdout.read_to_end(&mut rest).expect("a pipe can be read");
            rest
        }));
        self.note_instances();
        let keyless = arguments.contains(&"--auth")
            || env.iter().any(|(name, _)| name.ends_with("_AUTH_TOKEN"));
        let key = (!keyless).then(|| {
            let key = std::fs::read_to_string(self.data().join("first-key"));
            key.expect("the first key").trim().to_owned()
        });
        let client = Client { address, key };
        Serve { child, drain, client, announced, errors, more, ended: false }
    }
}

impl Deref for Serve {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Serve {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().expect("no panic inside")).into_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is our child");
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let status = home::wait(&mut self.child);
        self.ended = true;
        let more = self.more.take().expect("waited for once").join().expect("a reader");
        assert!(more.is_empty(), "standard output went on: {}", String::from_utf8_lossy(&more));
        status
    }

    /// SIGTERM, and a good end.
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // A test failed: what is left is removed.
        if !self.ended && self.child.kill().is_ok() {
            if self.child.wait().is_err() {
                eprintln!("holm serve could not be waited for");
            }
            let drained = self.drain.output();
            eprintln!("drained: {drained:?}");
        }
    }
}
