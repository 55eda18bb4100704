//! One resolved struct per command: flags before environment before file before defaults. The file
//! is for what concerns a service ([`table`]).

mod admin;
mod cp;
mod doctor;
mod drain;
mod file;
mod forward;
mod host;
mod layers;
mod limits;
mod mcp;
pub mod money;
mod network;
pub mod parse;
mod previews;
mod remote;
mod run;
mod serve;
mod service;
pub mod table;
mod template;
mod traces;
mod webhooks;

pub use admin::{AdminSettings, AdminTarget};
pub use cp::{CpSettings, Remote, Way};
pub use doctor::DoctorSettings;
pub use drain::DrainSettings;
pub use forward::ForwardSettings;
pub use host::{HostSettings, LogFormat};
pub use layers::InForce;
pub use mcp::{McpEngine, McpSettings};
pub use previews::PreviewSettings;
pub use remote::{RemoteSettings, no_key};
pub use run::RunSettings;
pub use serve::{Auth, ServeSettings};
pub use template::{TemplateSettings, registry_ways};

use std::ffi::OsStr;
use std::io::IsTerminal as _;

use crate::env_vars::{self, EnvVar, Environment};
use crate::exit::Failure;

/// Whether somebody can see a line that is drawn again and again.
fn shows_progress(environment: &Environment) -> bool {
    let dumb = environment.get(env_vars::TERM).is_none_or(|(_, term)| term == "dumb");
    std::io::stderr().is_terminal() && !dumb
}

/// The text of a variable or argument that must be UTF-8.
fn text(name: &str, value: &OsStr) -> Result<String, Failure> {
    value.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("{name} holds bytes that are not UTF-8"))
            .hint("names and values travel as JSON; pass such bytes in a file or on standard input")
    })
}

/// The text of a variable, if it is set.
fn variable(environment: &Environment, variable: EnvVar) -> Result<Option<String>, Failure> {
    environment.get(variable).map(|(name, value)| text(name, value)).transpose()
}

/// The limit of sandboxes, from the flag or the variable.
fn max_sandboxes(flag: Option<usize>, environment: &Environment) -> Result<Option<usize>, Failure> {
    let name = env_vars::MAX_SANDBOXES.name;
    let count = match (flag, variable(environment, env_vars::MAX_SANDBOXES)?) {
        (Some(count), _) => Some(count),
        (None, Some(value)) => Some(value.parse().map_err(|_| {
            Failure::usage(format!("{name} must be a whole number, not `{value}`"))
        })?),
        (None, None) => None,
    };
    if count == Some(0) {
        return Err(Failure::usage("the limit of sandboxes must be at least 1"));
    }
    Ok(count)
}
