//! Settings of `holm template`.

use holm_client::{Proxies, Roots};

use super::{HostSettings, remote, service};
use crate::cli::{ServiceArgs, TemplatePlaceArgs};
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;

/// Resolved settings.
#[derive(Debug)]
pub struct TemplateSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// JSON instead of text.
    pub json: bool,
    /// Show how far it is.
    pub bar: bool,
    /// Colours in the log.
    pub log_colours: bool,
}

impl TemplateSettings {
    /// Resolves arguments, environment and file. The log has warnings only unless the environment
    /// asks for more: the file's is the service's.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(
        arguments: TemplatePlaceArgs,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let TemplatePlaceArgs { data_dir, config, json } = arguments;
        let place = ServiceArgs { data_dir, config, database: None };
        let mut host = service::base(place, Vec::new(), environment)?.host;
        if environment.get(env_vars::LOG).is_none() {
            host.log = "warn".to_owned();
        }
        let bar = super::shows_progress(environment);
        Ok(Self { host, json, bar, log_colours: Paint::stderr(environment).is_on() })
    }
}

/// Whom to trust and through whom to go on the way to a registry.
///
/// # Errors
/// When a proxy cannot be used.
pub fn registry_ways(environment: &Environment) -> Result<(Roots, Proxies), Failure> {
    Ok((remote::roots(environment), remote::proxies(environment)?))
}
