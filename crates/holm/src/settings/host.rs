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
        })
    }
}

impl HostSettings {
    /// The same with the data directory of a flag, which may be relative.
    ///
    /// # Errors
    /// When there is no current directory that it could be relative to.
    pub fn with_data_dir(mut self, flag: Option<PathBuf>) -> Result<Self, Failure> {
        if let Some(directory) = flag {
            let absolute = std::path::absolute(&directory).map_err(|error| {
                Failure::usage(format!("--data-dir `{}`: {error}", directory.display()))
            })?;
            self.data_dir = Some(absolute);
        }
        Ok(self)
    }
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
