//! Closed and full streams.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::process::Stdio;

use crate::common::{Home, as_root, memory_peak, until};
use crate::snapshot::holm;

#[test]
fn a_reader_that_went_away_is_no_error() {
    for arguments in [&["--help"][..], &["completions", "bash"], &["version", "--json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let output = holm(arguments).stdout(writer).output().expect("holm starts");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    let output =
        holm(&["completions", "bash"]).stdout(Stdio::from(full)).output().expect("holm starts");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("error: cannot write to standard output"), "{text}");
}

as_root!(
    memory_stays_flat_both_ways,
    a_reader_that_leaves_ends_the_command,
    a_full_disk_ends_the_command,
    closed_streams_are_no_trouble,
);

fn memory_stays_flat_both_ways(home: &Home) {
    const BYTES: u64 = 256 << 20;
    let mut command = home.command();
    command.args(["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("holm starts");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let feeder = std::thread::spawn(move || {
        let mut source = File::open("/dev/zero").expect("it is there").take(BYTES);
        std::io::copy(&mut source, &mut stdin).expect("holm reads")
    });
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let mut part = vec![0; 1 << 20];
    stdout.read_exact(&mut part).expect("output comes");
    let rest = std::io::copy(&mut stdout, &mut std::io::sink()).expect("output comes");
    assert_eq!(feeder.join().expect("the feeder ends"), BYTES);
    assert_eq!(rest + part.len() as u64, BYTES);
    assert!(child.wait().expect("it is our child").success());
    // A second run whose reader stops half way holds no more than the pipes and a few parts.
    let mut command = home.command();
    command.args(["run", "--", "head", "-c", "256M", "/dev/zero"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("holm starts");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    stdout.by_ref().take(BYTES / 2).read_to_end(&mut part).expect("output comes");
    let peak = memory_peak(child.id());
    assert!(peak < 64 << 20, "{peak} bytes");
    std::io::copy(&mut stdout, &mut std::io::sink()).expect("output comes");
    assert!(child.wait().expect("it is our child").success());
}

fn a_reader_that_leaves_ends_the_command(home: &Home) {
    let mut command = home.command();
    command.args(["run", "--", "yes"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("holm starts");
    let mut stdout = child.stdout.take().expect("it is a pipe");
    stdout.read_exact(&mut [0; 2]).expect("output comes");
    drop(stdout);
    let status = until("it ends", || child.try_wait().expect("it is our child"));
    assert_eq!(status.code(), Some(128 + 13));
}

fn a_full_disk_ends_the_command(home: &Home) {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    let mut command = home.command();
    command.args(["run", "--", "yes"]).stdin(Stdio::null()).stdout(full);
    let output = command.stderr(Stdio::piped()).output().expect("holm starts");
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("error: cannot write the command's output"), "{text}");
}

fn closed_streams_are_no_trouble(home: &Home) {
    let line = "exec \"$0\" run -- sh -c 'cat; echo out; echo err >&2; exit 3' <&- >&- 2>&-";
    let mut command = home.command_of("/bin/sh".as_ref());
    command.args(["-c", line]).arg(&home.program);
    assert_eq!(command.status().expect("a shell starts").code(), Some(3));
}
