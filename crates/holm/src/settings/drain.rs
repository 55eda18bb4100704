//! Settings of `holm drain`.

use super::HostSettings;
use crate::cli::DrainArgs;
use crate::env_vars::Environment;
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
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(arguments: DrainArgs, environment: &Environment) -> Result<Self, Failure> {
        Ok(Self {
            host: HostSettings::resolve(environment, "warn")?.with_data_dir(arguments.data_dir)?,
            database: super::database(arguments.database.as_deref(), environment)?,
            log_colours: Paint::stderr(environment).is_on(),
        })
    }
}
