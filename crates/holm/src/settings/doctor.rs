//! Settings of `holm doctor`.

use super::HostSettings;
use crate::cli::DoctorArgs;
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::output::Paint;

/// Resolved settings.
#[derive(Debug)]
pub struct DoctorSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// JSON instead of a table.
    pub json: bool,
    /// Colours of the table.
    pub paint: Paint,
}

impl DoctorSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// See [`HostSettings::resolve`].
    pub fn resolve(arguments: &DoctorArgs, environment: &Environment) -> Result<Self, Failure> {
        Ok(Self {
            host: HostSettings::resolve(environment, "off")?,
            json: arguments.json,
            paint: Paint::stdout(environment),
        })
    }
}
