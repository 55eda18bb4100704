//! One file per command. Each takes its resolved settings and answers an exit code or a failure.

mod account;
mod completions;
mod config;
mod cp;
mod doctor;
mod drain;
mod forward;
mod host;
mod key;
mod mcp;
mod port;
mod run;
mod secret;
mod serve;
mod signals;
mod template;
mod version;

pub(crate) use host::{block_on, data_dir, engine_failure, start_log};

use holm_client::rest::Failure as Said;

use crate::cli::{Cli, Command};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::{
    CpSettings, DoctorSettings, DrainSettings, ForwardSettings, McpSettings, RunSettings,
    ServeSettings,
};

/// Runs the command that the arguments name.
///
/// # Errors
/// What the command has to say when it fails.
pub fn dispatch(arguments: Cli, environment: &Environment) -> Result<u8, Failure> {
    match arguments.command {
        Command::Run(arguments) => run::run(RunSettings::resolve(arguments, environment)?),
        Command::Mcp(arguments) => mcp::run(McpSettings::resolve(arguments, environment)?),
        Command::Serve(arguments) => serve::run(ServeSettings::resolve(arguments, environment)?),
        Command::Account(arguments) => account::run(arguments, environment),
        Command::Key(arguments) => key::run(arguments, environment),
        Command::Secret(arguments) => secret::run(arguments, environment),
        Command::Template(arguments) => template::run(arguments, environment),
        Command::Config(arguments) => {
            let json = arguments.json;
            config::run(&ServeSettings::resolve(arguments.serve, environment)?, json)
        }
        Command::Drain(arguments) => drain::run(&DrainSettings::resolve(arguments, environment)?),
        Command::Doctor(arguments) => {
            doctor::run(&DoctorSettings::resolve(&arguments, environment)?)
        }
        Command::Forward(arguments) => {
            forward::run(ForwardSettings::resolve(arguments, environment)?)
        }
        Command::Cp(arguments) => cp::run(CpSettings::resolve(arguments, environment)?),
        Command::Port(arguments) => port::run(arguments, environment),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Version(arguments) => version::run(&arguments),
    }
}

/// What a service answers that did not do what it was asked.
fn said(said: Said) -> Failure {
    match said {
        Said::Http(error) => Failure::new(error.to_string()),
        Said::Refused { status, message, .. } if message.is_empty() => {
            Failure::new(format!("the service answers with status {status}"))
        }
        Said::Refused { message, .. } => Failure::new(format!("the service refuses: {message}")),
    }
}
