//! Settings of `holm cp`.

use std::path::PathBuf;

use holm_engine::SandboxId;

use super::RemoteSettings;
use crate::cli::CpArgs;
use crate::env_vars::Environment;
use crate::exit::Failure;

/// Resolved settings.
#[derive(Debug)]
pub struct CpSettings {
    /// The service.
    pub service: RemoteSettings,
    /// In which direction.
    pub way: Way,
    /// Who reads and writes in the sandbox.
    pub user: Option<String>,
    /// Show how far it is.
    pub bar: bool,
}

/// A path in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Relative ones start in /workspace.
    pub path: String,
}

/// In which direction. No path here is standard input or output.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Way {
    Up { from: Option<PathBuf>, to: Remote },
    Down { from: Remote, to: Option<PathBuf> },
}

impl CpSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When no service is named, or not exactly one of the two is in a sandbox.
    pub fn resolve(arguments: CpArgs, environment: &Environment) -> Result<Self, Failure> {
        let way = way(&arguments.from, &arguments.to)?;
        let bar = super::shows_progress(environment) && !arguments.quiet;
        let service = RemoteSettings::required(environment)?;
        Ok(Self { service, way, user: arguments.user, bar })
    }
}

fn way(from: &str, to: &str) -> Result<Way, Failure> {
    let here = |text: &str| (text != "-").then(|| PathBuf::from(text));
    match (remote(from)?, remote(to)?) {
        (None, Some(to)) => Ok(Way::Up { from: here(from), to }),
        (Some(from), None) => Ok(Way::Down { from, to: here(to) }),
        _ => {
            Err(Failure::usage("one of the two must be in a sandbox, as in ID:PATH, and one here")
                .hint("a file here whose name looks like that is ./ID:PATH"))
        }
    }
}

/// What begins like an id and has a colon is one in a sandbox.
fn remote(text: &str) -> Result<Option<Remote>, Failure> {
    let Some((id, path)) = text.split_once(':') else { return Ok(None) };
    if !id.starts_with("sbx_") {
        return Ok(None);
    }
    let sandbox = id.parse::<SandboxId>();
    let sandbox = sandbox.map_err(|error| Failure::usage(format!("the sandbox {error}")))?;
    let path = if path.is_empty() { "." } else { path };
    Ok(Some(Remote { sandbox, path: path.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_is_in_a_sandbox() {
        let id = "sbx_0123456789abcdef01";
        let there = |path: &str| Remote { sandbox: id.parse().unwrap(), path: path.to_owned() };
        let up = way("a:b", &format!("{id}:/x:y")).unwrap();
        assert_eq!(up, Way::Up { from: Some("a:b".into()), to: there("/x:y") });
        let down = way(&format!("{id}:"), "-").unwrap();
        assert_eq!(down, Way::Down { from: there("."), to: None });
        for (from, to) in [("a", "b"), ("-", "-"), ("sbx_1:x", "b")] {
            assert!(way(from, to).is_err(), "{from} {to}");
        }
        assert!(way(&format!("{id}:a"), &format!("{id}:b")).is_err());
    }
}
