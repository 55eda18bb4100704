//! Settings of `holm mcp`.

use super::HostSettings;
use crate::cli::McpArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;

/// Resolved settings.
#[derive(Debug)]
pub struct McpSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Template of sandboxes that name none; `None` leaves it to the engine.
    pub template: Option<String>,
    /// Most sandboxes at once; `None` leaves it to the engine.
    pub max_sandboxes: Option<usize>,
    /// Colours in the log.
    pub log_colours: bool,
}

impl McpSettings {
    /// Resolves arguments and environment, and refuses what would silently do something else than
    /// the environment asks for: a service was configured, but the engine would be the local one.
    ///
    /// # Errors
    /// When the environment asks for a service, or a value is wrong.
    pub fn resolve(arguments: McpArgs, environment: &Environment) -> Result<Self, Failure> {
        if !arguments.local {
            refuse_remote(environment)?;
        }
        let template = match arguments.template {
            Some(template) => Some(template),
            None => super::variable(environment, env_vars::DEFAULT_TEMPLATE)?,
        };
        Ok(Self {
            host: HostSettings::resolve(environment, "warn")?,
            template,
            max_sandboxes: super::max_sandboxes(arguments.max_sandboxes, environment)?,
            log_colours: Paint::stderr(environment).is_on(),
        })
    }
}

fn refuse_remote(environment: &Environment) -> Result<(), Failure> {
    if let Some((name, _)) = environment.get(env_vars::URL) {
        return Err(Failure::new(format!(
            "{name} is set, but this version cannot use a remote service yet; \
             unset it or give --local"
        )));
    }
    if let Some((name, _)) = environment.get(env_vars::API_KEY) {
        return Err(Failure::new(format!(
            "{name} is set without {}, so it is not clear which service it is for; \
             unset it or give --local",
            env_vars::URL.name
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(local: bool, pairs: &[(&str, &str)]) -> Result<McpSettings, Failure> {
        let arguments = McpArgs { local, template: None, max_sandboxes: None };
        McpSettings::resolve(arguments, &Environment::of(pairs.iter().copied()))
    }

    #[test]
    fn a_service_in_the_environment_is_never_silently_ignored() {
        for name in ["HOLM_URL", "ABX_SANDBOX_BASE_URL", "HOLM_API_KEY", "AAS_API_KEY"] {
            let failure = resolve(false, &[(name, "x-marker-x")]).unwrap_err();
            assert_eq!(failure.code, 1, "{name}");
            assert!(failure.message.contains(name), "{failure:?}");
            assert!(!failure.message.contains("x-marker-x"), "the value must not be printed");
            assert!(!failure.message.contains('\n'), "one line");
            assert!(resolve(true, &[(name, "x-marker-x")]).is_ok(), "{name} with --local");
            assert!(resolve(false, &[(name, "")]).is_ok(), "{name} empty");
        }
    }

    #[test]
    fn flags_come_before_the_environment() {
        let environment = Environment::of([
            ("ABX_DEFAULT_TEMPLATE", "other"),
            ("HOLM_DEFAULT_TEMPLATE", "own"),
            ("HOLM_MAX_SANDBOXES", "7"),
        ]);
        let arguments = McpArgs { local: false, template: None, max_sandboxes: None };
        let settings = McpSettings::resolve(arguments, &environment).unwrap();
        assert_eq!(settings.template.as_deref(), Some("own"));
        assert_eq!(settings.max_sandboxes, Some(7));
        let arguments =
            McpArgs { local: false, template: Some("flag".into()), max_sandboxes: Some(3) };
        let settings = McpSettings::resolve(arguments, &environment).unwrap();
        assert_eq!(settings.template.as_deref(), Some("flag"));
        assert_eq!(settings.max_sandboxes, Some(3));
    }

    #[test]
    fn a_wrong_count_names_its_variable() {
        for value in ["0", "many", "-1", "1.5"] {
            let failure = resolve(false, &[("HOLM_MAX_SANDBOXES", value)]).unwrap_err();
            assert_eq!(failure.code, 2, "{value}");
        }
    }
}
