//! Settings of `holm drain`.

use super::service::{self, Base};
use super::{HostSettings, limits, webhooks};
use crate::cli::DrainArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;
use crate::service::Database;
use holm_engine::EngineSettings;

/// Resolved settings.
#[derive(Debug)]
pub struct DrainSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Where the service keeps its records.
    pub database: Database,
    /// Limits, sizes, prices of the service.
    pub engine: EngineSettings,
    /// Colours in the log.
    pub log_colours: bool,
}

impl DrainSettings {
    /// Resolves arguments, environment and file. The log has warnings only unless the environment
    /// asks for more: the file's is the service's.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(arguments: DrainArgs, environment: &Environment) -> Result<Self, Failure> {
        let Base { layers, mut host, database } =
            service::base(arguments.service, Vec::new(), environment)?;
        if environment.get(env_vars::LOG).is_none() {
            host.log = "warn".to_owned();
        }
        let mut engine = limits::engine(&layers)?;
        // Nobody tells them now; the next start of the service does.
        engine.webhooks = webhooks::webhooks(&layers, environment)?.names();
        Ok(Self { host, database, engine, log_colours: Paint::stderr(environment).is_on() })
    }
}
