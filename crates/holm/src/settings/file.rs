//! The settings file: TOML, with the names of [`table`](super::table).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::table;
use crate::exit::Failure;

/// The name of the file that is read from the data directory.
pub(super) const NAME: &str = "config.toml";

/// A settings file, flat: `server.port` → `9000`.
#[derive(Debug, Default)]
pub struct SettingsFile {
    /// Where it is.
    pub path: PathBuf,
    values: BTreeMap<String, String>,
}

impl SettingsFile {
    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, or sets what does not exist.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Failure::usage(format!("the settings file {}: {error}", path.display())))
            }
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        // The parser's own text quotes the line, which may hold a secret.
        let tree: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            let message = error.message();
            Failure::usage(format!("{}, line {line}: {message}", path.display()))
        })?;
        let mut values = BTreeMap::new();
        flatten(path, "", tree, &mut values)?;
        let known = table::all();
        for key in values.keys() {
            if !known.iter().any(|setting| setting.key == *key) {
                return Err(unknown(path, key, &known));
            }
        }
        Ok(Self { path: path.to_owned(), values })
    }

    /// The value of a setting.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }
}

fn flatten(
    path: &Path,
    before: &str,
    tree: Table,
    values: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    for (name, value) in tree {
        let key = if before.is_empty() { name } else { format!("{before}.{name}") };
        let text = match value {
            Value::Table(inner) => {
                flatten(path, &key, inner, values)?;
                continue;
            }
            Value::Array(items) => {
                let texts: Option<Vec<String>> = items.into_iter().map(plain).collect();
                texts.map(|texts| texts.join(","))
            }
            other => plain(other),
        };
        let text = text.ok_or_else(|| {
            Failure::usage(format!("{}: {key} is no text, number or list of them", path.display()))
        })?;
        values.insert(key, text);
    }
    Ok(())
}

fn plain(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is) => Some(is.to_string()),
        _ => None,
    }
}

fn unknown(path: &Path, key: &str, known: &[table::Setting]) -> Failure {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let near = known.iter().find(|setting| last(&setting.key) == last(key));
    let failure = Failure::usage(format!("{}: there is no setting {key}", path.display()));
    match near {
        Some(setting) => failure.hint(format!("do you mean {}?", setting.key)),
        None => failure.hint("`holm config` prints the names of all settings"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SettingsFile, Failure> {
        SettingsFile::parse(Path::new("/etc/holm.toml"), text)
    }

    #[test]
    fn a_file_becomes_flat() {
        let text = "log = 'debug'\n[server]\nport = 1\nallowed_origins = ['https://a', 'https://b']\n\
                    [sizes.small]\nvcpus = 1";
        let file = parse(text).unwrap();
        assert_eq!(file.get("log"), Some("debug"));
        assert_eq!(file.get("server.port"), Some("1"));
        assert_eq!(file.get("server.allowed_origins"), Some("https://a,https://b"));
        assert_eq!(file.get("sizes.small.vcpus"), Some("1"));
        assert_eq!(file.get("server.bind"), None);
    }

    #[test]
    fn wrong_files_say_what_is_wrong_and_quote_no_value() {
        let check = |text: &str, part: &str| {
            let failure = parse(text).unwrap_err();
            let said = format!("{} {:?}", failure.message, failure.hint);
            assert!(said.contains(part), "{text}: {said}");
            assert!(said.contains("/etc/holm.toml"), "{text}: {said}");
            assert!(!said.contains("x-marker"), "{text}: {said}");
            assert_eq!(failure.code, 2);
        };
        check("a = 1\nserver = {token = \"x-marker", "line 2");
        check("port = 1", "do you mean server.port?");
        check("[server]\ntokem = 'x-marker'", "there is no setting server.tokem");
        check("database = 2026-01-01", "database is no text");
    }
}
