//! Settings of the commands that administer a service: `holm account`, `holm key`.

use super::service::{self, Base};
use super::{HostSettings, RemoteSettings, table};
use crate::cli::AdminArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::service::Database;

/// Resolved settings.
#[derive(Debug)]
pub struct AdminSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// What is worked on.
    pub target: AdminTarget,
    /// JSON instead of a table.
    pub json: bool,
}

/// What is worked on.
#[derive(Debug)]
pub enum AdminTarget {
    /// The database, whether its service runs or not.
    Database {
        /// Where it is.
        database: Database,
        /// What money is counted in.
        currency: String,
    },
    /// A service that runs, here or elsewhere.
    Service(Box<RemoteSettings>),
}

impl AdminSettings {
    /// Resolves arguments, environment and file. A flag that names the database counts before a
    /// variable that names a service. The log is off unless the environment asks for one: the
    /// file's is the service's.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn resolve(arguments: AdminArgs, environment: &Environment) -> Result<Self, Failure> {
        let AdminArgs { service, url, key_file, json } = arguments;
        let names_database =
            service.data_dir.is_some() || service.config.is_some() || service.database.is_some();
        if !names_database {
            let (url, key_file) = (url.as_deref(), key_file.as_deref());
            if let Some(service) = RemoteSettings::administered(url, key_file, environment)? {
                let host = HostSettings::resolve(environment, "off")?;
                return Ok(Self { host, target: AdminTarget::Service(Box::new(service)), json });
            }
        }
        if key_file.is_some() {
            return Err(Failure::usage("--key-file is for a service, and none is named")
                .hint(format!("name it with --url or {}", env_vars::URL.name)));
        }
        let Base { layers, mut host, database } = service::base(service, Vec::new(), environment)?;
        if environment.get(env_vars::LOG).is_none() {
            host.log = "off".to_owned();
        }
        let currency = layers.text(&table::CURRENCY)?.1;
        Ok(Self { host, target: AdminTarget::Database { database, currency }, json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ServiceArgs;

    #[test]
    fn flags_decide_then_a_url_in_the_environment() {
        let named = [("HOLM_URL", "http://localhost:9000"), ("HOLM_API_KEY", "x-marker-x")];
        let check = |arguments: AdminArgs, pairs: &[(&str, &str)], is_service: bool| {
            let text = format!("{arguments:?} {pairs:?}");
            let environment = Environment::of(pairs.iter().copied().chain([("HOME", "/none")]));
            let settings = AdminSettings::resolve(arguments, &environment).expect(&text);
            let is = matches!(settings.target, AdminTarget::Service(_));
            assert_eq!(is, is_service, "{text}");
        };
        let url = || Some("http://localhost:1".to_owned());
        check(AdminArgs::default(), &[("HOLM_DATA_DIR", "/none")], false);
        check(AdminArgs::default(), &named, true);
        check(AdminArgs { url: url(), ..AdminArgs::default() }, &named[1..], true);
        let dir = ServiceArgs { data_dir: Some("/none".into()), ..ServiceArgs::default() };
        check(AdminArgs { service: dir, ..AdminArgs::default() }, &named, false);
        let base = ServiceArgs { database: Some("sqlite".to_owned()), ..ServiceArgs::default() };
        check(AdminArgs { service: base, ..AdminArgs::default() }, &named, false);
        let file = AdminArgs { key_file: Some("/none".into()), ..AdminArgs::default() };
        let failure = AdminSettings::resolve(file, &Environment::default()).expect_err("no URL");
        assert!(failure.message.contains("--key-file"), "{failure:?}");
    }
}
