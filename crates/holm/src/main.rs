//! `holm`: disposable, isolated Linux machines for AI agents.
//!
//! The same file is four programs: the command line; the launcher (`holm __launcher`, started by
//! the command line by exec, single-threaded); a confined worker, which unpacks images (`holm
//! __confined`, started likewise); and, embedded, the guest that is PID 1 in sandboxes.
//! A service whose operator has a program for records in DNS has one more small process that runs it
//! (`holm __hook`).

use std::ffi::OsStr;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before argument parsing, threads and allocation-heavy work: these must stay small
    // single-threaded processes, because they clone.
    let first = std::env::args_os().nth(1);
    if first.as_deref() == Some(OsStr::new("__launcher")) {
        holm_runtime::launcher::main(holm::GUEST);
    }
    if first.as_deref() == Some(OsStr::new(holm_runtime::confined::ARGUMENT)) {
        holm_template::unpack::main();
    }
    if first.as_deref() == Some(OsStr::new(holm_runtime::hook::ARGUMENT)) {
        return ExitCode::from(holm_runtime::hook::main());
    }
    holm::main()
}
