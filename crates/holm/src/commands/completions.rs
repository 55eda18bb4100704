//! `holm completions`: prints a completion script.

use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{self, Failure};
use crate::output;

pub(super) fn run(arguments: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "holm", &mut script);
    output::stdout(&script)
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))?;
    Ok(exit::SUCCESS)
}
