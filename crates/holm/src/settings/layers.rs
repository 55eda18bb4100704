//! Where a setting's value comes from: a flag, else a variable, else the file, else the default.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::file::SettingsFile;
use super::table::{Setting, Shown};
use crate::env_vars::Environment;
use crate::exit::Failure;

/// All sources together. Remembers what was asked and found.
#[derive(Debug)]
pub(super) struct Layers<'a> {
    flags: BTreeMap<&'static str, String>,
    environment: &'a Environment,
    file: Option<SettingsFile>,
    found: RefCell<Vec<InForce>>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of this name.
    Flag(&'static str),
    /// A variable of this name.
    Variable(&'static str),
    /// A settings file.
    File(PathBuf),
    /// Nothing set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => out.write_str(name),
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Default => out.write_str("default"),
        }
    }
}

/// A setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InForce {
    /// Its name in the settings file.
    pub key: String,
    /// Its value, as far as it may be shown.
    pub value: String,
    /// Where that comes from: the name of a flag or variable, a file, or `default`.
    pub from: String,
}

impl<'a> Layers<'a> {
    /// Flags by the key of their setting, then variables; the file comes later.
    pub fn new(flags: Vec<(Setting, Option<String>)>, environment: &'a Environment) -> Self {
        let given = |(setting, value): (Setting, Option<String>)| Some((setting.flag?, value?));
        let flags = flags.into_iter().filter_map(given).collect();
        Self { flags, environment, file: None, found: RefCell::default() }
    }

    /// The same above a file.
    pub fn with_file(self, file: Option<SettingsFile>) -> Self {
        Self { file, ..self }
    }

    /// Everything that was asked for, as it is in force.
    pub fn into_found(self) -> Vec<InForce> {
        self.found.into_inner()
    }

    /// The value of a setting as text.
    pub fn text(&self, setting: &Setting) -> Result<(Origin, String), Failure> {
        let (origin, text) = self.find(setting)?;
        self.note(setting, &origin, &text);
        Ok((origin, text))
    }

    /// Notes a value that was found in another way.
    pub fn note(&self, setting: &Setting, origin: &Origin, text: &str) {
        let value = match setting.shown {
            Shown::Whole => text.to_owned(),
            Shown::Url => without_password(text),
            Shown::Never if text.is_empty() => String::new(),
            Shown::Never => "(set)".to_owned(),
        };
        let (key, from) = (setting.key.clone().into_owned(), origin.to_string());
        self.found.borrow_mut().push(InForce { key, value, from });
    }

    /// The value of a setting as `read` makes it; `what` says what it must be.
    pub fn read<T>(
        &self,
        setting: &Setting,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Failure> {
        let (origin, text) = self.text(setting)?;
        read(&text).ok_or_else(|| wrong(setting, &origin, what, &text))
    }

    pub(super) fn find(&self, setting: &Setting) -> Result<(Origin, String), Failure> {
        if let Some(flag) = setting.flag
            && let Some(value) = self.flags.get(flag)
        {
            return Ok((Origin::Flag(flag), value.clone()));
        }
        if let Some((name, value)) = self.variable(setting) {
            return Ok((Origin::Variable(name), super::text(name, value)?));
        }
        if let Some(file) = &self.file
            && let Some(value) = file.get(&setting.key)
        {
            return Ok((Origin::File(file.path.clone()), value.to_owned()));
        }
        Ok((Origin::Default, setting.default.clone().into_owned()))
    }

    /// An empty variable counts as not set, except where "nothing" is a value.
    fn variable(&self, setting: &Setting) -> Option<(&'static str, &OsStr)> {
        let variable = setting.env?;
        let found = self.environment.get(variable);
        if found.is_some() || !setting.blank_counts {
            return found;
        }
        let names = std::iter::once(variable.name).chain(variable.aliases.iter().copied());
        names.into_iter().find_map(|name| Some((name, self.environment.raw(OsStr::new(name))?)))
    }
}

/// A value that is not what it must be. Secrets are not repeated.
/// A setting as whoever has set it knows it.
pub(super) fn named(setting: &Setting, origin: &Origin) -> String {
    match origin {
        Origin::Flag(name) | Origin::Variable(name) => (*name).to_owned(),
        Origin::File(path) => format!("{} in {}", setting.key, path.display()),
        Origin::Default => setting.key.clone().into_owned(),
    }
}

pub(super) fn wrong(setting: &Setting, origin: &Origin, what: &str, text: &str) -> Failure {
    let name = named(setting, origin);
    match setting.shown {
        Shown::Whole => Failure::usage(format!("{name} must be {what}, not `{text}`")),
        Shown::Url | Shown::Never => Failure::usage(format!("{name} must be {what}")),
    }
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may hold everything, and may also be in the query.
    let (user, rest) =
        rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
    let place = rest.split('?').next().unwrap_or_default();
    match user {
        Some(user) => {
            let user =
                user.split_once(':').map_or(user.to_owned(), |(user, _)| format!("{user}:…"));
            format!("{scheme}://{user}@{place}")
        }
        None => format!("{scheme}://{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_their_password() {
        let check = |url: &str, shown: &str| assert_eq!(without_password(url), shown);
        check("sqlite", "sqlite");
        check("postgres://h/d", "postgres://h/d");
        check("postgres://u@h/d", "postgres://u@h/d");
        check("postgres://u:x@y@h:1/d", "postgres://u:…@h:1/d");
        check("postgres://u:x/y?z@h:1/d", "postgres://u:…@h:1/d");
        check("postgres://u@h/d?password=x", "postgres://u@h/d");
        check("postgres://h/d?password=x", "postgres://h/d");
    }
}
