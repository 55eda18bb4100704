//! Where on this host holm keeps its things.

use std::path::PathBuf;

use crate::env_vars::{self, EnvVar, Environment};
use crate::exit::Failure;

/// Directories; `None` lets the driver choose its default for root or rootless mode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// Images and layers.
    pub data_dir: Option<PathBuf>,
    /// Sockets.
    pub runtime_dir: Option<PathBuf>,
    /// Log filter.
    pub log: String,
    /// How the log looks.
    pub log_format: LogFormat,
}

/// How the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// The format of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

impl HostSettings {
    /// Reads the variables. `log` is the filter where none is set.
    ///
    /// # Errors
    /// When a directory is not absolute or the filter is not text.
    pub fn resolve(environment: &Environment, log: &str) -> Result<Self, Failure> {
        let log = match environment.get(env_vars::LOG) {
            Some((name, value)) => super::text(name, value)?,
            None => log.to_owned(),
        };
        Ok(Self {
            data_dir: directory(environment, env_vars::DATA_DIR)?,
            runtime_dir: directory(environment, env_vars::RUNTIME_DIR)?,
            log,
            log_format: log_format(environment)?,
        })
    }
}

fn log_format(environment: &Environment) -> Result<LogFormat, Failure> {
    let Some((name, value)) = environment.get(env_vars::LOG_FORMAT) else {
        return Ok(LogFormat::Text);
    };
    let text = super::text(name, value)?;
    LogFormat::read(&text)
        .ok_or_else(|| Failure::usage(format!("{name} must be text or json, not `{text}`")))
}

fn directory(environment: &Environment, variable: EnvVar) -> Result<Option<PathBuf>, Failure> {
    let Some((name, value)) = environment.get(variable) else { return Ok(None) };
    let path = PathBuf::from(value);
    if path.is_absolute() {
        return Ok(Some(path));
    }
    Err(Failure::usage(format!("{name} must be an absolute path, not `{}`", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_absolute_or_left_to_the_driver() {
        let resolve = |pairs: &[(&str, &str)]| {
            HostSettings::resolve(&Environment::of(pairs.iter().copied()), "warn")
        };
        assert_eq!(resolve(&[]).unwrap().data_dir, None);
        assert_eq!(resolve(&[("HOLM_DATA_DIR", "/d")]).unwrap().data_dir, Some("/d".into()));
        let failure = resolve(&[("HOLM_RUNTIME_DIR", "d")]).unwrap_err();
        assert!(failure.message.contains("HOLM_RUNTIME_DIR"), "{failure:?}");
        assert_eq!(resolve(&[("HOLM_LOG", "debug")]).unwrap().log, "debug");
    }
}
