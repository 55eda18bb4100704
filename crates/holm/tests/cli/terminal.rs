//! `holm run` on a terminal: the command has one too, and the caller's is restored.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::common::{GUARD, Home, as_root, as_rootless, open_terminal, until};

as_root!(
    the_command_gets_a_terminal,
    keys_and_sizes_reach_it,
    a_signal_restores_the_terminal,
    a_stubborn_command_is_ended_by_the_second_signal,
    a_hangup_ends_it,
    in_the_background_it_has_no_input,
    below_timeout_it_ends_in_time,
    case_71_the_first_key_is_shown_once_and_only_on_a_terminal,
);
as_rootless!(the_command_gets_a_terminal);

/// A terminal with a session whose leader is holm.
struct Terminal {
    master: Option<File>,
    child: Child,
    output: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    fn run(home: &Home, script: &str) -> Self {
        Self::holm(home, &["run", "--", "sh", "-c", script])
    }

    fn holm(home: &Home, arguments: &[&str]) -> Self {
        let args: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        // What is on the terminal came through standard output.
        Self::start(home, home.program.as_os_str(), &args, |_| Stdio::null())
    }

    /// A shell with job control as the session's leader; its `$0` is the program.
    fn shell(home: &Home, script: &str) -> Self {
        let args = ["-mc".as_ref(), script.as_ref(), home.program.as_os_str()];
        // Without it the shell has no job control.
        Self::start(home, "/bin/bash".as_ref(), &args, |slave| {
            slave.try_clone().expect("a copy").into()
        })
    }

    fn start(home: &Home, program: &OsStr, args: &[&OsStr], stderr: fn(&File) -> Stdio) -> Self {
        let (master, slave) = open_terminal();
        tcsetwinsize(&master, size(33, 101)).expect("it has a size");
        let mut command = home.command_of("/usr/bin/setsid".as_ref());
        command.arg("--ctty").arg(program).args(args).stderr(stderr(&slave));
        command.env("TERM", "xterm-256color").stdin(slave.try_clone().expect("a copy"));
        let child = command.stdout(slave).spawn().expect("it starts");
        drop(command);
        let master = File::from(master);
        let mut reader = master.try_clone().expect("a copy");
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error means that nobody has the other end any more.
            while let Ok(count) = reader.read(&mut buffer)
                && count > 0
                && sender.send(buffer[..count].to_vec()).is_ok()
            {}
        });
        Self { master: Some(master), child, output, seen: String::new() }
    }

    /// Waits for a text, and answers what came up to it.
    fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.output.recv_timeout(GUARD) {
                Ok(part) => self.seen.push_str(&String::from_utf8_lossy(&part)),
                Err(error) => panic!("no {text:?} in {:?}: {error}", self.seen),
            }
        }
    }

    fn master(&mut self) -> &mut File {
        self.master.as_mut().expect("it is open")
    }

    fn is_raw(&mut self) -> bool {
        let modes = tcgetattr(self.master()).expect("it has modes").local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is ours");
    }

    fn ended(&mut self) -> ExitStatus {
        until("it ends", || self.child.try_wait().expect("it is our child"))
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn the_command_gets_a_terminal(home: &Home) {
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && exit 5";
    let mut terminal = Terminal::run(home, script);
    terminal.expect("33 101");
    terminal.expect("xterm-256color");
    assert_eq!(terminal.ended().code(), Some(5));
    assert!(!terminal.is_raw(), "the terminal is as it was");
}

fn keys_and_sizes_reach_it(home: &Home) {
    let script = "trap 'echo broken' INT; trap 'stty size' WINCH; echo up; read -r line; \
                  while [ \"$line\" != end ]; do echo \"<$line>\"; read -r line; done";
    let mut terminal = Terminal::run(home, script);
    terminal.expect("up");
    assert!(terminal.is_raw(), "keys go to the command's terminal");
    terminal.master().write_all(b"one\n").expect("it takes keys");
    terminal.expect("<one>");
    terminal.master().write_all(b"\x03").expect("it takes keys");
    terminal.expect("broken");
    tcsetwinsize(terminal.master(), size(50, 60)).expect("it has a size");
    terminal.expect("50 60");
    terminal.master().write_all(b"\x04end\n").expect("it takes keys");
    assert_eq!(terminal.ended().code(), Some(0));
}

fn a_signal_restores_the_terminal(home: &Home) {
    let mut terminal = Terminal::run(home, "echo up; sleep 1000");
    terminal.expect("up");
    assert!(terminal.is_raw());
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.ended().code(), Some(143));
    assert!(!terminal.is_raw());
}

fn a_stubborn_command_is_ended_by_the_second_signal(home: &Home) {
    let mut terminal =
        Terminal::run(home, "trap 'echo no' INT; echo up; while :; do sleep 1; done");
    terminal.expect("up");
    let mut ended = None;
    // Two within a second: on a busy machine it may take more than two.
    until("it ends", || {
        terminal.signal_if_running(&mut ended);
        ended
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(130));
    assert!(!terminal.is_raw());
}

impl Terminal {
    fn signal_if_running(&mut self, ended: &mut Option<ExitStatus>) {
        *ended = self.child.try_wait().expect("it is our child");
        if ended.is_none() {
            self.signal(Signal::INT);
        }
    }
}

fn a_hangup_ends_it(home: &Home) {
    let mut terminal = Terminal::run(home, "echo up; sleep 1000");
    terminal.expect("up");
    // The reader's copy must go too: what it waits in ends only when the other side is gone, so
    // the hangup is sent as a terminal's program would.
    terminal.signal(Signal::HUP);
    let status = terminal.ended();
    assert_eq!((status.code(), status.signal()), (Some(129), None));
    terminal.master = None;
}

fn in_the_background_it_has_no_input(home: &Home) {
    let script = "\"$0\" run -- sh -c 'cat; echo ended' & wait %1; echo status=$?";
    let mut terminal = Terminal::shell(home, script);
    terminal.expect("ended");
    terminal.expect("status=0");
    assert_eq!(terminal.ended().code(), Some(0));
}

fn below_timeout_it_ends_in_time(home: &Home) {
    // `timeout` makes a group of its own, which does not have the terminal.
    let mut terminal = Terminal::shell(home, "timeout 2 \"$0\" run -- sleep 1000; echo status=$?");
    terminal.expect("status=124");
    assert_eq!(terminal.ended().code(), Some(0));
}

fn case_71_the_first_key_is_shown_once_and_only_on_a_terminal(home: &Home) {
    for start in 0..2 {
        let mut terminal = Terminal::holm(home, &["serve", "--port", "0"]);
        let said = terminal.expect("\n}").replace("\r\n", "\n");
        let path = home.data().join("first-key");
        let key = std::fs::read_to_string(&path).expect("the first key").trim().to_owned();
        assert!(said.contains(&path.display().to_string()), "{said}");
        let header = match start {
            0 => format!("--header \"Authorization: Bearer {key}\""),
            _ => format!("--header \"Authorization: Bearer $(cat {})\"", path.display()),
        };
        assert!(said.contains(&header), "{said}");
        assert_eq!(said.contains(&key), start == 0, "{said}");
        terminal.signal(Signal::TERM);
        assert_eq!(terminal.ended().code(), Some(0));
    }
}
