//! Readers of `holm mcp`'s output that pause, never read, or leave.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Child;
use std::thread::{self, JoinHandle};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use super::streams::{Form, Heard, LINES, ends_well, ids, input, output, spawn};
use crate::common::{Home, as_root, json, until};

as_root!(
    a_reader_that_pauses_gets_every_line_whole,
    a_reader_that_never_reads_cannot_hold_the_end_up,
    a_reader_that_leaves_is_the_end,
);

const FORMS: [Form; 3] = [Form::Pipe, Form::Socket, Form::NamedPipe];
/// Their replies are many times what the stream and the server's queue hold.
const REQUESTS: usize = 300;

/// A server whose replies nobody has read yet, and which cannot write any more.
struct Blocked {
    child: Child,
    from: File,
    /// Gives the input back, so that it stays open.
    feeder: JoinHandle<File>,
}

fn blocked(home: &Home, form: Form) -> Blocked {
    let ((theirs, ours), (out, from)) = (input(home, form), output(home, form));
    let child = spawn(home, theirs, out);
    let (mut ours, from) = (ours.expect("it has two ends"), from.expect("it has two ends"));
    let feeder = thread::spawn(move || {
        for id in 0..REQUESTS {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
            // The server may be told to end before it has read them all.
            if ours.write_all(format!("{request}\n").as_bytes()).is_err() {
                break;
            }
        }
        ours
    });
    until("it is full", || (ioctl_fionread(&from).expect("it is a stream") > 60_000).then_some(()));
    Blocked { child, from, feeder }
}

fn a_reader_that_pauses_gets_every_line_whole(home: &Home) {
    for form in FORMS {
        let Blocked { mut child, from, feeder } = blocked(home, form);
        let heard = Heard::from(from);
        let ours = feeder.join().expect("the server reads on");
        until("all replies", || (heard.lines() == REQUESTS).then_some(()));
        drop(ours);
        ends_well(home, &mut child, &format!("{form:?}"));
        let expected: Vec<_> = (0..REQUESTS).map(|id| json!(id)).collect();
        assert_eq!(ids(&heard.all()), expected, "{form:?}");
    }
}

fn a_reader_that_never_reads_cannot_hold_the_end_up(home: &Home) {
    for form in FORMS {
        let Blocked { mut child, from, feeder } = blocked(home, form);
        let pid = i32::try_from(child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), Signal::TERM).expect("it is ours");
        ends_well(home, &mut child, &format!("{form:?}"));
        drop(feeder.join().expect("the feeder ends"));
        drop(from);
    }
}

fn a_reader_that_leaves_is_the_end(home: &Home) {
    for form in FORMS {
        let ((theirs, ours), (out, from)) = (input(home, form), output(home, form));
        let mut child = spawn(home, theirs, out);
        let (mut ours, from) = (ours.expect("it has two ends"), from.expect("it has two ends"));
        ours.write_all(LINES[0].as_bytes()).expect("the server reads");
        let mut reply = String::new();
        BufReader::new(from).read_line(&mut reply).expect("a reply");
        assert_eq!(ids(&reply), [json!(1)], "{form:?}");
        ours.write_all(LINES[1].as_bytes()).expect("the server reads");
        // Its input is still open: only the output can have told it.
        ends_well(home, &mut child, &format!("{form:?}"));
        drop(ours);
    }
}
