//! The project's own tooling, run as `cargo xtask …`. See [`HELP`].
//!
//! Few dependencies on purpose: it must build in seconds, and it never becomes part of holm.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod bench;
mod ci;
mod generate;
mod shell;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask ci              every static check: format, clippy, tidy, gen --check, deny
cargo xtask tidy            house rules that no other tool checks
cargo xtask gen [--check]   write docs/reference from the code, or fail where it differs
cargo xtask bench [ARGS…]   the benchmark, side by side with other sandboxes
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["gen"] => generate::run(false),
        ["gen", "--check"] => generate::run(true),
        ["bench", rest @ ..] => bench::run(rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("unknown arguments: {}\n{HELP}", words.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}
