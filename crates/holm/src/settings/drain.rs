//! Settings of `holm drain`.

use super::HostSettings;
use super::service::{self, Base};
use crate::cli::ServiceArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;
use crate::service::Database;

/// Resolved settings.
#[derive(Debug)]
pub struct DrainSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Where the service keeps its records.
    pub database: Database,
    /// Colours in the log.
    pub log_colours: bool,
}

impl DrainSettings {
    /// Resolves arguments, environment and file. The log tells of trouble unless the environment
    /// asks for more: the file's is the service's.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(arguments: ServiceArgs, environment: &Environment) -> Result<Self, Failure> {
        let Base { mut host, database, .. } = service::base(arguments, Vec::new(), environment)?;
        if environment.get(env_vars::LOG).is_none() {
            host.log = "warn".to_owned();
        }
        Ok(Self { host, database, log_colours: Paint::stderr(environment).is_on() })
    }
}
