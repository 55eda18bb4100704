//! `holm`: disposable, isolated Linux machines for AI agents.
//!
//! The same file is three programs: the command line, the launcher (`holm __launcher`, started by
//! the command line by exec, single-threaded) and, embedded, the guest that is PID 1 in sandboxes.

use std::ffi::OsStr;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before argument parsing, threads and allocation-heavy work: the launcher must stay a small
    // single-threaded process, because it clones.
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new("__launcher")) {
        holm_runtime::launcher::main(holm::GUEST);
    }
    holm::main()
}
