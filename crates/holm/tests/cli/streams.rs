//! Closed and full streams.

use std::fs::OpenOptions;
use std::process::Stdio;

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
