//! What may be the standard input and output of `holm mcp`.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::net::{Shutdown, shutdown};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::common::{Home, Value, as_root, as_rootless, json, open_terminal, until};

as_root!(every_form_gets_two_replies, nobody_who_shares_a_stream_finds_it_non_blocking);
as_rootless!(every_form_gets_two_replies);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Pipe,
    Socket,
    NamedPipe,
    File,
    Null,
    Terminal,
}

/// One stream: the server's end, and ours where it has two.
pub type Ends = (OwnedFd, Option<File>);

/// The lines of the README's first example.
pub const LINES: [&str; 2] = [
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n",
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{}}\n",
];

fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}

fn sockets() -> Ends {
    let (theirs, ours) = UnixStream::pair().expect("sockets can be made");
    (theirs.into(), Some(file(ours)))
}

fn terminal() -> Ends {
    let (master, slave) = open_terminal();
    let mut modes = tcgetattr(&slave).expect("it has modes");
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&slave, OptionalActions::Now, &modes).expect("it takes modes");
    (slave.into(), Some(file(master)))
}

/// Both ends of a named pipe: the one for reading, then the one for writing.
fn named_pipe(home: &Home, name: &str) -> (File, File) {
    let path = home.dir.join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a named pipe can be made");
    // Held open both ways, so that neither end waits for the other.
    let both = File::options().read(true).write(true).open(&path).expect("it opens");
    let ends = (File::open(&path), File::options().write(true).open(&path));
    drop(both);
    std::fs::remove_file(&path).expect("it is ours");
    (ends.0.expect("it opens"), ends.1.expect("it opens"))
}

pub fn input(home: &Home, form: Form) -> Ends {
    match form {
        Form::Pipe => {
            let (reader, writer) = std::io::pipe().expect("a pipe can be made");
            (reader.into(), Some(file(writer)))
        }
        Form::Socket => sockets(),
        Form::Terminal => terminal(),
        Form::NamedPipe => {
            let (reader, writer) = named_pipe(home, "in");
            (reader.into(), Some(writer))
        }
        Form::File => {
            let path = home.dir.join("in.jsonl");
            std::fs::write(&path, LINES.concat()).expect("a file can be written");
            (File::open(path).expect("it is there").into(), None)
        }
        Form::Null => (File::open("/dev/null").expect("it is there").into(), None),
    }
}

pub fn output(home: &Home, form: Form) -> Ends {
    match form {
        Form::Pipe => {
            let (reader, writer) = std::io::pipe().expect("a pipe can be made");
            (writer.into(), Some(file(reader)))
        }
        Form::Socket => sockets(),
        Form::Terminal => terminal(),
        Form::NamedPipe => {
            let (reader, writer) = named_pipe(home, "out");
            (writer.into(), Some(reader))
        }
        Form::File => {
            let file = File::create(home.dir.join("out.jsonl")).expect("a file can be made");
            (file.into(), None)
        }
        Form::Null => {
            let null = File::options().write(true).open("/dev/null").expect("it is there");
            (null.into(), None)
        }
    }
}

pub fn spawn(home: &Home, stdin: OwnedFd, stdout: OwnedFd) -> Child {
    let mut command = home.command();
    command.args(["mcp", "--local"]).stdin(stdin).stdout(stdout);
    command.stderr(File::create(home.dir.join("err")).expect("a file can be made"));
    let child = command.spawn().expect("holm mcp starts");
    home.note_instances();
    child
}

/// Ends with status 0, whatever its streams are.
pub fn ends_well(home: &Home, child: &mut Child, what: &str) {
    let status = until(what, || child.try_wait().expect("it is our child"));
    let log = std::fs::read_to_string(home.dir.join("err")).unwrap_or_default();
    assert_eq!(status.code(), Some(0), "{what}; stderr: {log}");
}

/// What came so far, and the thread that reads it.
#[derive(Default)]
pub struct Heard(Arc<Mutex<Vec<u8>>>, Option<JoinHandle<()>>);

impl Heard {
    pub fn from(mut source: File) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let shared = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut part = [0; 4096];
            // A terminal's end is an error.
            while let Ok(count @ 1..) = source.read(&mut part) {
                shared.lock().expect("no panic inside").extend_from_slice(&part[..count]);
            }
        });
        Self(bytes, Some(reader))
    }

    pub fn lines(&self) -> usize {
        let bytes = self.0.lock().expect("no panic inside");
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }

    /// All of it, once nobody can write any more.
    pub fn all(mut self) -> String {
        if let Some(reader) = self.1.take() {
            reader.join().expect("a reader ends with its stream");
        }
        String::from_utf8(self.0.lock().expect("no panic inside").clone()).expect("text")
    }
}

/// The ids of the replies; every line must be a whole one.
pub fn ids(text: &str) -> Vec<Value> {
    let reply = |line: &str| {
        let reply: Value = serde_json::from_str(line).expect("JSON only");
        assert!(reply["result"].is_object(), "{reply}");
        reply["id"].clone()
    };
    text.lines().map(reply).collect()
}

/// The status flags of the server's own descriptors.
fn is_non_blocking(child: &Child, descriptor: u32) -> bool {
    let path = format!("/proc/{}/fdinfo/{descriptor}", child.id());
    let info = std::fs::read_to_string(path).expect("it runs");
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
    let flags = u32::from_str_radix(flags.trim(), 8).expect("they are octal");
    flags & rustix::fs::OFlags::NONBLOCK.bits() != 0
}

fn every_form_gets_two_replies(home: &Home) {
    use Form::{File, NamedPipe, Null, Pipe, Socket, Terminal};
    for (from, to) in [
        (Pipe, Pipe),
        (Socket, Socket),
        (NamedPipe, NamedPipe),
        (Terminal, Terminal),
        (File, File),
        (Socket, Pipe),
        (File, Pipe),
        (Pipe, File),
        (Pipe, Null),
        (Null, Pipe),
        (Null, Null),
    ] {
        let (from_end, to_end) = (input(home, from), output(home, to));
        converse(home, from_end, to_end, (from, to));
    }
    for form in [Socket, Terminal] {
        // One descriptor for both, as some clients pass it.
        let (theirs, ours) = if form == Socket { sockets() } else { terminal() };
        let ours = ours.expect("it has two ends");
        let again = (theirs.try_clone().expect("a copy"), ours.try_clone().ok());
        converse(home, (theirs, Some(ours)), again, (form, form));
    }
}

fn converse(home: &Home, input: Ends, output: Ends, forms: (Form, Form)) {
    let what = format!("{forms:?}");
    let mut child = spawn(home, input.0, output.0);
    let heard = output.1.map(Heard::from).unwrap_or_default();
    let mut kept = None;
    if let Some(mut ours) = input.1 {
        for (at, line) in LINES.iter().enumerate() {
            ours.write_all(line.as_bytes()).expect("the server reads");
            // One by one, so that the server has to wait for the second.
            if heard.1.is_some() {
                until(&what, || (heard.lines() > at).then_some(()));
            }
        }
        for descriptor in [0, 1] {
            assert!(!is_non_blocking(&child, descriptor), "{what}: {descriptor}");
        }
        match forms.0 {
            Form::Terminal => {
                ours.write_all(b"\x04").expect("the server reads");
                // Closing it would be a hangup.
                kept = Some(ours);
            }
            Form::Socket => shutdown(&ours, Shutdown::Write).expect("it is connected"),
            _ => drop(ours),
        }
    }
    ends_well(home, &mut child, &what);
    drop(kept);
    let text = match forms.1 {
        Form::File => std::fs::read_to_string(home.dir.join("out.jsonl")).expect("it is there"),
        Form::Null => return,
        _ => heard.all(),
    };
    let expected = if forms.0 == Form::Null { vec![] } else { vec![json!(1), json!(2)] };
    assert_eq!(ids(&text), expected, "{what}");
}

fn nobody_who_shares_a_stream_finds_it_non_blocking(home: &Home) {
    for form in [Form::Pipe, Form::Socket] {
        let (theirs, ours) = input(home, form);
        let (out, from) = output(home, form);
        let mut command = home.command();
        command.args(["mcp", "--local"]).env("HOLM_LOG", "debug").stdin(theirs);
        command.stderr(out.try_clone().expect("a copy")).stdout(out);
        let mut child = command.spawn().expect("holm mcp starts");
        drop(command);
        home.note_instances();
        let heard = Heard::from(from.expect("it has two ends"));
        let mut ours = ours.expect("it has two ends");
        let replies = |heard: &Heard| {
            let text = heard.0.lock().expect("no panic inside").clone();
            String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with('{')).count()
        };
        for (at, line) in LINES.iter().enumerate() {
            ours.write_all(line.as_bytes()).expect("the server reads");
            until("a reply", || (replies(&heard) > at).then_some(()));
            for descriptor in 0..3 {
                assert!(!is_non_blocking(&child, descriptor), "{form:?}: {descriptor}");
            }
        }
        drop(ours);
        let status = until("its end", || child.try_wait().expect("it is our child"));
        assert_eq!(status.code(), Some(0), "{form:?}");
        let text = heard.all();
        assert!(text.contains("DEBUG"), "the log was there too: {text}");
    }
}
