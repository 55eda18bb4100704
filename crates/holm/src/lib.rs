//! The command line: arguments, settings, commands, and the wiring of driver, engine and faces.
//!
//! A library only so that tests can read the tables (arguments, variables, exit codes) from which
//! `docs/reference` is generated. Knows no business rules.

pub mod cli;
pub mod commands;
pub mod env_vars;
pub mod exit;
mod library;
pub mod output;
pub mod service;
pub mod settings;
mod sys;

use std::process::ExitCode;

use clap::Parser as _;

use crate::env_vars::Environment;

/// The guest, built by `build.rs` before this program.
pub const GUEST: holm_runtime::Guest = holm_runtime::Guest {
    program: include_bytes!(concat!(env!("OUT_DIR"), "/holm-guest")),
    build: Some(env!("HOLM_GUEST_BUILD")),
};

/// The program after the launcher's dispatch.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match cli::Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::usage(&error),
    };
    let environment = Environment::of_process();
    match commands::dispatch(arguments, &environment) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::report(&failure, &environment);
            ExitCode::from(failure.code)
        }
    }
}
