//! What all commands on a service's data directory resolve alike: the directory, the settings file
//! in it, the log, the database.

use std::path::{Path, PathBuf};

use holm_runtime::LinuxOptions;

use super::file::{self, SettingsFile};
use super::layers::{Layers, Origin, wrong};
use super::table::{self, Setting};
use super::{HostSettings, LogFormat};
use crate::cli::ServiceArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::service::Database;

/// The part that all share, and the layers to resolve the rest from.
#[derive(Debug)]
pub(super) struct Base<'a> {
    pub layers: Layers<'a>,
    pub host: HostSettings,
    pub database: Database,
}

/// Finds the settings file and resolves the shared part. `more` are the flags of the command.
pub(super) fn base<'a>(
    arguments: ServiceArgs,
    more: Vec<(Setting, Option<String>)>,
    environment: &'a Environment,
) -> Result<Base<'a>, Failure> {
    let data_dir = arguments.data_dir.as_deref().map(absolute).transpose()?;
    let named = named_file(arguments.config, environment)?;
    let is_named = named.is_some();
    let mut flags = vec![
        (table::DATA_DIR, data_dir.map(|dir| dir.display().to_string())),
        (table::DATABASE, arguments.database),
    ];
    flags.extend(more);
    let layers = Layers::new(flags, environment).with_file(named);
    let (origin, text) = layers.find(&table::DATA_DIR)?;
    let data_dir = directory(&table::DATA_DIR, &origin, &text)?;
    let place = data_dir.clone().unwrap_or_else(default_data_dir);
    layers.note(&table::DATA_DIR, &origin, &place.display().to_string());
    let layers = match is_named {
        true => layers,
        false => layers.with_file(file_in(&place)?),
    };
    let (origin, text) = layers.find(&table::RUNTIME_DIR)?;
    let runtime_dir = directory(&table::RUNTIME_DIR, &origin, &text)?;
    let shown = runtime_dir.clone().unwrap_or_else(|| LinuxOptions::new("").runtime_dir());
    layers.note(&table::RUNTIME_DIR, &origin, &shown.display().to_string());
    let (_, log) = layers.text(&table::LOG)?;
    let log_format = layers.read(&table::LOG_FORMAT, "text or json", LogFormat::read)?;
    let (origin, text) = layers.text(&table::DATABASE)?;
    let database = Database::read(&text).ok_or_else(|| {
        wrong(
            &table::DATABASE,
            &origin,
            "`sqlite`, or postgres://user:password@host:port/database",
            &text,
        )
    })?;
    Ok(Base { layers, host: HostSettings { data_dir, runtime_dir, log, log_format }, database })
}

/// A flag's path, which may be relative.
fn absolute(flag: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(flag)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", flag.display())))
}

fn directory(setting: &Setting, origin: &Origin, text: &str) -> Result<Option<PathBuf>, Failure> {
    let path = PathBuf::from(text);
    match text.is_empty() || path.is_absolute() {
        true => Ok((!text.is_empty()).then_some(path)),
        false => Err(wrong(setting, origin, "an absolute path", text)),
    }
}

/// The directory where nothing names one.
fn default_data_dir() -> PathBuf {
    LinuxOptions::new("").data_dir()
}

/// The file that a flag or a variable names. It must be there.
fn named_file(
    flag: Option<PathBuf>,
    environment: &Environment,
) -> Result<Option<SettingsFile>, Failure> {
    let path = match (flag, environment.get(env_vars::CONFIG)) {
        (Some(path), _) => absolute(&path)?,
        (None, Some((_, path))) => absolute(Path::new(path))?,
        (None, None) => return Ok(None),
    };
    let missing = || Failure::usage(format!("there is no settings file {}", path.display()));
    SettingsFile::read(&path)?.ok_or_else(missing).map(Some)
}

/// The file in the data directory, where no other one is named.
fn file_in(place: &Path) -> Result<Option<SettingsFile>, Failure> {
    let found = SettingsFile::read(&place.join(file::NAME))?;
    match &found {
        Some(found) if found.get(&table::DATA_DIR.key).is_some() => {
            let path = found.path.display();
            Err(Failure::usage(format!(
                "{path} is in the data directory and cannot name another one"
            ))
            .hint("name the file with --config, or leave data_dir out"))
        }
        _ => Ok(found),
    }
}
