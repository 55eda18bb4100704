//! Settings of `holm mcp`.

use holm_engine::{EgressPolicy, UplinkOptions};

use super::{HostSettings, RemoteSettings};
use crate::cli::McpArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;

/// Resolved settings.
#[derive(Debug)]
pub struct McpSettings {
    /// Whose sandboxes they are.
    pub engine: McpEngine,
    /// Directories and log.
    pub host: HostSettings,
    /// Template of sandboxes that name none; `None` leaves it to the engine.
    pub template: Option<String>,
    /// What sandboxes may reach that say nothing; `None` leaves it to the engine.
    pub network: Option<EgressPolicy>,
    /// Where gates of sandboxes lead to.
    pub uplink: UplinkOptions,
    /// Colours in the log.
    pub log_colours: bool,
}

/// Who makes the sandboxes.
#[derive(Debug)]
pub enum McpEngine {
    /// This process, so many at once at most; `None` leaves it to the engine.
    Embedded(Option<usize>),
    /// A service.
    Remote(Box<RemoteSettings>),
}

impl McpSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When a value is wrong, or it is not clear which service is meant.
    pub fn resolve(arguments: McpArgs, environment: &Environment) -> Result<Self, Failure> {
        let remote = if arguments.local { None } else { RemoteSettings::resolve(environment)? };
        let engine = match remote {
            Some(remote) if arguments.max_sandboxes.is_some() => {
                return Err(Failure::usage(format!(
                    "--max-sandboxes is of the embedded engine, but {} names a service",
                    remote.url_from
                ))
                .hint("give --local for the embedded engine, or leave the flag out"));
            }
            Some(remote) => McpEngine::Remote(Box::new(remote)),
            None => {
                McpEngine::Embedded(super::max_sandboxes(arguments.max_sandboxes, environment)?)
            }
        };
        let template = match arguments.template {
            Some(template) => Some(template),
            None => super::variable(environment, env_vars::DEFAULT_TEMPLATE)?,
        };
        let network = super::network::asked(arguments.network.as_deref(), environment)?;
        Ok(Self {
            engine,
            network,
            uplink: super::network::of_host(environment)?,
            host: HostSettings::resolve(environment, "warn")?,
            template,
            log_colours: Paint::stderr(environment).is_on(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(local: bool, pairs: &[(&str, &str)]) -> Result<McpSettings, Failure> {
        let arguments = McpArgs { local, template: None, network: None, max_sandboxes: None };
        McpSettings::resolve(arguments, &Environment::of(pairs.iter().copied()))
    }

    fn is_remote(settings: &McpSettings) -> bool {
        matches!(settings.engine, McpEngine::Remote(_))
    }

    #[test]
    fn a_service_in_the_environment_is_used_unless_local_is_said() {
        for name in ["HOLM_URL", "ABX_SANDBOX_BASE_URL"] {
            let pairs = [(name, "https://a.example"), ("AAS_API_KEY", "x-marker-x")];
            assert!(is_remote(&resolve(false, &pairs).unwrap()), "{name}");
            assert!(!is_remote(&resolve(true, &pairs).unwrap()), "{name} with --local");
            assert!(!is_remote(&resolve(false, &[(name, "")]).unwrap()), "{name} empty");
        }
        for name in ["HOLM_API_KEY", "AAS_API_KEY"] {
            assert_eq!(resolve(false, &[(name, "x-marker-x")]).unwrap_err().code, 1, "{name}");
            assert!(!is_remote(&resolve(true, &[(name, "x-marker-x")]).unwrap()), "{name}");
        }
    }

    #[test]
    fn flags_come_before_the_environment() {
        let environment = Environment::of([
            ("ABX_DEFAULT_TEMPLATE", "other"),
            ("HOLM_DEFAULT_TEMPLATE", "own"),
            ("HOLM_MAX_SANDBOXES", "7"),
        ]);
        let check = |template: Option<&str>, count, expected: (&str, usize)| {
            let template = template.map(str::to_owned);
            let arguments = McpArgs { local: false, template, network: None, max_sandboxes: count };
            let settings = McpSettings::resolve(arguments, &environment).unwrap();
            assert_eq!(settings.template.as_deref(), Some(expected.0));
            let McpEngine::Embedded(count) = settings.engine else { panic!("{settings:?}") };
            assert_eq!(count, Some(expected.1));
        };
        check(None, None, ("own", 7));
        check(Some("flag"), Some(3), ("flag", 3));
    }

    #[test]
    fn the_limit_is_the_embedded_engines() {
        let arguments =
            McpArgs { local: false, template: None, network: None, max_sandboxes: Some(3) };
        let environment = Environment::of([("HOLM_URL", "http://localhost:9000")]);
        assert_eq!(McpSettings::resolve(arguments, &environment).unwrap_err().code, 2);
    }

    #[test]
    fn a_wrong_count_names_its_variable() {
        for value in ["0", "many", "-1", "1.5"] {
            let failure = resolve(false, &[("HOLM_MAX_SANDBOXES", value)]).unwrap_err();
            assert_eq!(failure.code, 2, "{value}");
        }
    }
}
