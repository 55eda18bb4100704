//! The program that is PID 1 in every sandbox.
//!
//! `holm-guest init`: as PID 1, on the listening socket that is its descriptor 3.
//! `holm-guest serve --socket PATH`: the same services as an ordinary process, as the current
//! user, for tests. `--workdir DIR` and `--home DIR` say where relative paths begin.
//!
//! `holm-guest kernel LANGUAGE`: a bridge to a kernel, see [`bridge`].
//!
//! One thread runs everything but file work (see [`files::pool`]), and it never blocks.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod background;
mod bridge;
mod command;
mod contexts;
mod errors;
mod files;
mod identity;
mod image;
mod io;
mod metrics;
mod probe;
mod process;
mod server;
mod settings;
mod start;
mod state;
mod sys;
mod tunnel;
mod warm;

use std::io::Write as _;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Err(text) = start::run(&arguments) {
        // Nobody reads it in a sandbox, where standard error is /dev/null.
        let _ = writeln!(std::io::stderr(), "holm-guest: {text}");
        std::process::exit(1);
    }
}
