//! Runs holm and compares exit code, standard output and standard error with a file.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// holm with an environment of its own: nothing of the caller's settings gets in.
pub fn holm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holm"));
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.stdin(Stdio::null());
    command
}

/// Runs it and compares everything that it did with `snapshots/NAME.txt`.
pub fn check(name: &str, mut command: Command) {
    let output = command.output().expect("holm starts");
    compare(name, &render(&output));
}

fn render(output: &Output) -> String {
    let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
    format!(
        "exit code: {code}\n--- stdout\n{}--- stderr\n{}",
        filter(&String::from_utf8_lossy(&output.stdout)),
        filter(&String::from_utf8_lossy(&output.stderr)),
    )
}

/// Takes out what differs from build to build and machine to machine.
pub fn filter(text: &str) -> String {
    text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
        .replace(std::env::consts::ARCH, "[ARCH]")
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Compares text with a snapshot, or writes it where the caller asked for that.
pub fn compare(name: &str, actual: &str) {
    let path = directory().join(format!("{name}.txt"));
    if std::env::var_os("HOLM_WRITE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(directory()).expect("the directory can be made");
        let mut file = std::fs::File::create(&path).expect("the snapshot can be written");
        file.write_all(actual.as_bytes()).expect("the snapshot can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; see tests/cli/main.rs", path.display()));
    assert!(
        expected == actual,
        "{} differs (HOLM_WRITE_SNAPSHOTS=1 writes it anew)\n--- expected\n{expected}\n--- is\n{actual}",
        path.display()
    );
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots")
}
