//! A home for one test: own data and runtime directories, own copy of the program, own user.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use super::leftover;
use super::mcp::{GUARD, Mcp};
use super::until_within;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Who runs holm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The superuser.
    Root,
    /// A user without any right, of its own for each home where the test itself runs as root.
    Rootless,
}

/// Where one test's holm lives.
pub struct Home {
    pub dir: PathBuf,
    pub mode: Mode,
    /// The user, when it is nobody else's.
    pub own_uid: Option<u32>,
    pub program: PathBuf,
    /// What stands before each command line: the way into another machine's network and mounts.
    pub prefix: Vec<String>,
    pub instances: Mutex<Vec<String>>,
}

/// How a run of the program ended.
#[derive(Debug)]
pub struct Exit {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Exit {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// True when the full-length forms are asked for.
pub fn long() -> bool {
    std::env::var_os("HOLM_LONG").is_some_and(|value| value == "1")
}

/// Runs a test in a home of that mode and looks for leftovers afterwards.
pub fn in_mode(mode: Mode, test: fn(&Home)) {
    if mode == Mode::Root && !rustix::process::geteuid().is_root() {
        println!("SKIP root mode: this user is not root");
        return;
    }
    let home = Home::new(mode);
    test(&home);
    home.assert_clean();
}

impl Home {
    pub fn new(mode: Mode) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let dir = PathBuf::from(format!("/tmp/holm-t{pid}-{number}"));
        fs::create_dir(&dir).expect("a home directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("its mode");
        // An own copy: another user must be able to reach it, and its path tells this home's processes.
        let program = dir.join("holm");
        let built = std::env::var_os("HOLM_TEST_PROGRAM");
        let built = built.unwrap_or_else(|| env!("CARGO_BIN_EXE_holm").into());
        // Copied by another process: a descriptor that is open for writing here could be inherited
        // by a child that another thread starts right now, and the program would be busy.
        let copied = Command::new("cp").arg(built).arg(&program).status().expect("cp is there");
        assert!(copied.success(), "a copy of the program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
        let own_uid = (mode == Mode::Rootless && rustix::process::geteuid().is_root())
            .then(|| 40_000 + (pid.wrapping_mul(64) + number) % 20_000);
        for name in ["data", "run", "home"] {
            let path = dir.join(name);
            fs::create_dir(&path).expect("a directory of the home");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
            if let Some(uid) = own_uid {
                chown(&path, Some(uid), Some(uid)).expect("its owner");
            }
        }
        Self { dir, mode, own_uid, program, prefix: Vec::new(), instances: Mutex::default() }
    }

    /// The users that can be had inside in this mode.
    pub fn users(&self) -> &'static [&'static str] {
        static MODE: OnceLock<String> = OnceLock::new();
        // Users that are made up for a home have no subordinate ids.
        let only_one = || {
            let mode = MODE.get_or_init(|| {
                let report = self.holm(&["doctor", "--json"]);
                let report: serde_json::Value =
                    serde_json::from_slice(&report.stdout).expect("doctor prints JSON");
                report["mode"].as_str().expect("a mode").to_owned()
            });
            mode != "rootless with subordinate ids"
        };
        if self.mode == Mode::Rootless && (self.own_uid.is_some() || only_one()) {
            return &["sandbox"];
        }
        &["sandbox", "root"]
    }

    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn runtime(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// The program with a small, known environment, as this home's user.
    pub fn command(&self) -> Command {
        self.command_of(&self.program)
    }

    /// Any program with the environment and user of this home.
    pub fn command_of(&self, program: &Path) -> Command {
        let mut command = match self.prefix.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest);
                // Who may go there has to be root until then.
                if let Some(uid) = self.own_uid.map(|uid| uid.to_string()) {
                    command.args(["--setuid", &uid, "--setgid", &uid]);
                }
                command.arg("--").arg(program);
                command
            }
        };
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.dir.join("home"))
            .env("HOLM_DATA_DIR", self.data())
            .env("HOLM_RUNTIME_DIR", self.runtime())
            .current_dir(&self.dir);
        if self.mode == Mode::Rootless {
            // What an ordinary user may lack; a service would not start.
            command.env("HOLM_ALLOW_MISSING", "own_id_range,memory_limit,cpu_limit");
        }
        if let Some(uid) = self.own_uid.filter(|_| self.prefix.is_empty()) {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// A server after its `initialize`.
    pub fn mcp(&self) -> Mcp {
        self.mcp_with(&[])
    }

    /// A server with more variables, after its `initialize`.
    pub fn mcp_with(&self, env: &[(&str, &str)]) -> Mcp {
        let mcp = self.mcp_raw(env);
        mcp.initialize("2025-06-18");
        self.note_instances();
        mcp
    }

    /// A server to which nothing was said yet.
    pub fn mcp_raw(&self, env: &[(&str, &str)]) -> Mcp {
        let mut command = self.command();
        command.args(["mcp", "--local"]).envs(env.iter().copied());
        Mcp::spawn(command, self)
    }

    /// Runs the program with empty input to its end.
    pub fn holm(&self, args: &[&str]) -> Exit {
        self.holm_with(args, b"")
    }

    /// Runs the program with this input to its end.
    pub fn holm_with(&self, args: &[&str], input: &[u8]) -> Exit {
        let mut command = self.command();
        command.args(args);
        finish(command, input)
    }

    /// A key of a new account of the service here, which may run.
    pub fn tenant(&self, name: &str) -> String {
        let done = |arguments: &[&str]| {
            let exit = self.holm(arguments);
            assert_eq!(exit.code(), Some(0), "{}", exit.err());
            exit.out().trim_end().to_owned()
        };
        done(&["account", "create", name]);
        done(&["key", "create", name])
    }

    /// What is recorded of sandboxes and blanks on the host.
    pub fn records(&self) -> Vec<serde_json::Value> {
        let instances = fs::read_dir(self.data().join("instances")).into_iter().flatten().flatten();
        let records = instances.filter_map(|dir| fs::read_dir(dir.path().join("sandboxes")).ok());
        let texts = records.flatten().flatten().filter_map(|file| fs::read(file.path()).ok());
        texts.filter_map(|text| serde_json::from_slice(&text).ok()).collect()
    }

    /// Sandboxes that are recorded on the host, blanks left out.
    pub fn recorded(&self) -> BTreeSet<String> {
        let of = |record: &serde_json::Value| record["sandbox"].as_str().map(str::to_owned);
        self.records().iter().filter_map(of).collect()
    }

    /// Notes the instances that live now, so that their traces can be looked for later.
    pub fn note_instances(&self) {
        let mut known = self.instances.lock().expect("no test thread panicked here");
        for dir in [self.runtime(), self.data().join("instances")] {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.path().is_dir() && name != "instances" && !known.contains(&name) {
                    known.push(name);
                }
            }
        }
    }

    /// Waits until nothing of this home's sandboxes is on the host any more.
    pub fn assert_clean(&self) {
        Self::assert_none(|left| leftover::find(self, left));
    }

    /// Waits until there is nothing but processes of holm's `own` and what is recorded.
    pub fn assert_all_recorded(&self, own: impl Fn() -> Vec<u32>) {
        Self::assert_none(|left| leftover::find_unrecorded(self, &own(), left));
    }

    fn assert_none(find: impl Fn(&mut Vec<String>)) {
        let mut left = Vec::new();
        let start = std::time::Instant::now();
        loop {
            left.clear();
            find(&mut left);
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < GUARD / 4, "left behind: {left:#?}");
            thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Failing to remove it while a test fails already must not hide the first failure.
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{}: {error}", self.dir.display());
            assert!(thread::panicking(), "the home of a passed test could not be removed");
        }
    }
}

/// Runs a command to its end, with a hang guard.
pub fn finish(mut command: Command, input: &[u8]) -> Exit {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let feeder = thread::spawn(move || {
        // The program may end without reading; that is its right.
        stdin.write_all(&input).is_ok()
    });
    let stdout = drain(child.stdout.take().expect("piped"));
    let stderr = drain(child.stderr.take().expect("piped"));
    let status = wait(&mut child);
    feeder.join().expect("the feeder ends");
    Exit {
        status,
        stdout: stdout.join().expect("a reader"),
        stderr: stderr.join().expect("a reader"),
    }
}

fn drain(mut from: impl std::io::Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

/// Waits for the end of a child; kills it when the guard has passed.
pub fn wait(child: &mut Child) -> ExitStatus {
    let start = std::time::Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status;
        }
        if start.elapsed() > GUARD {
            child.kill().expect("it is our child");
            panic!("a process did not end within {GUARD:?}");
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
}
