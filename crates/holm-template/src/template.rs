//! What a template is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::id::LayerId;

/// Most layers of a template.
pub const MAX_LAYERS: usize = 128;
/// Longest name.
const MAX_NAME: usize = 63;
/// Templates that are built in.
const BUILT_IN: [&str; 2] = ["host", "base"];

/// Layers, bottom to top, and how programs are started in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Bottom to top.
    pub layers: Vec<LayerId>,
    /// What the image says of programs in it.
    pub config: TemplateConfig,
    /// Where it is from, for people.
    pub source: String,
    /// Bytes of all layers, also of those that others share.
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Its layers lie over the host's own programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// Bytes of what was written to make it, of a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
}

/// What an image says of programs in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateConfig {
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// As the image has it: `name`, `1000`, `1000:1000`, `name:group`.
    pub user: Option<String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// The program.
    pub entrypoint: Vec<String>,
    /// Its arguments, or the program.
    pub cmd: Vec<String>,
    /// What is started in every sandbox.
    pub start: Option<String>,
    /// What succeeds once that is ready.
    pub ready: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// Checks a template's name: it is also a file's.
///
/// # Errors
/// When a template cannot have it.
pub fn check_name(name: &str) -> Result<()> {
    let refuse = |why: &str| {
        let shown: String = name.chars().take(MAX_NAME + 1).collect();
        Err(TemplateError::new(
            TemplateErrorKind::BadName,
            format!("`{shown}` cannot be the name of a template: {why}"),
        ))
    };
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    if BUILT_IN.contains(&name) {
        return refuse("it is built in");
    }
    if name.len() > MAX_NAME {
        return refuse("it is longer than 63 characters");
    }
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !first || !name.bytes().all(inner) {
        return refuse("use a-z, 0-9, `.`, `_` and `-`, beginning with a letter or a digit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_files() {
        for name in ["a", "debian", "python-3.12", "x_1", "0", &"a".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in
            ["", "host", "base", ".", "..", "-a", ".a", "a/b", "A", "ä", "a b", &"a".repeat(64)]
        {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.kind, TemplateErrorKind::BadName, "{name}");
        }
    }
}
