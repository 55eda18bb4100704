//! One resolved struct per command: flags before environment before defaults.

mod doctor;
mod drain;
mod host;
mod mcp;
pub mod parse;
mod run;
mod serve;

pub use doctor::DoctorSettings;
pub use drain::DrainSettings;
pub use host::HostSettings;
pub use mcp::McpSettings;
pub use run::RunSettings;
pub use serve::{Auth, DEFAULT_PORT, ServeSettings};

use std::ffi::OsStr;

use crate::env_vars::{self, EnvVar, Environment};
use crate::exit::Failure;
use crate::service::Database;

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

/// The service's database, from the flag or the variable.
fn database(flag: Option<&str>, environment: &Environment) -> Result<Database, Failure> {
    match (flag, environment.get(env_vars::DATABASE)) {
        (Some(text), _) => Database::read("--database", text),
        (None, Some((name, value))) => Database::read(name, &text(name, value)?),
        (None, None) => Ok(Database::Sqlite),
    }
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
