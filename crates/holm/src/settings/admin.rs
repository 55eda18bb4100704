//! Settings of the commands that administer a service: `holm account`, `holm key`.

use super::service::{self, Base};
use super::{HostSettings, table};
use crate::cli::AdminArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::service::Database;

/// Resolved settings.
#[derive(Debug)]
pub struct AdminSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Where accounts and keys are.
    pub database: Database,
    /// What money is counted in.
    pub currency: String,
    /// JSON instead of a table.
    pub json: bool,
}

impl AdminSettings {
    /// Resolves arguments, environment and file. The log is off unless the environment asks for
    /// one: the file's is the service's.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(arguments: AdminArgs, environment: &Environment) -> Result<Self, Failure> {
        let Base { layers, mut host, database } =
            service::base(arguments.service, Vec::new(), environment)?;
        if environment.get(env_vars::LOG).is_none() {
            host.log = "off".to_owned();
        }
        let currency = layers.text(&table::CURRENCY)?.1;
        Ok(Self { host, database, currency, json: arguments.json })
    }
}
