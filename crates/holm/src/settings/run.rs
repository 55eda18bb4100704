//! Settings of `holm run`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_engine::{EgressPolicy, UplinkOptions};

use super::{HostSettings, parse};
use crate::cli::RunArgs;
use crate::env_vars::{self, Environment};
use crate::exit::Failure;

/// Resolved settings.
#[derive(Debug)]
pub struct RunSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Template; `None` leaves it to the engine.
    pub template: Option<String>,
    /// Size; `None` leaves it to the engine, which also judges it.
    pub size: Option<String>,
    /// What it may reach; `None` leaves it to the engine.
    pub network: Option<EgressPolicy>,
    /// Where its gate leads to.
    pub uplink: UplinkOptions,
    /// The command's time.
    pub timeout: Option<Duration>,
    /// Variables of the command.
    pub env: BTreeMap<String, String>,
    /// Where the command starts.
    pub workdir: Option<String>,
    /// Host path and path inside.
    pub mounts: Vec<(PathBuf, String)>,
    /// `sandbox` or `root`.
    pub user: String,
    /// The command.
    pub argv: Vec<String>,
    /// Type of the caller's terminal.
    pub term: Option<String>,
}

impl RunSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When an argument cannot be used.
    pub fn resolve(arguments: RunArgs, environment: &Environment) -> Result<Self, Failure> {
        let template = match (arguments.template, environment.get(env_vars::DEFAULT_TEMPLATE)) {
            (Some(template), _) => Some(template),
            (None, Some((name, value))) => Some(super::text(name, value)?),
            (None, None) => None,
        };
        let argv = arguments.command.iter();
        let argv = argv.map(|word| super::text("the command", word)).collect::<Result<_, _>>()?;
        let term = environment.get(env_vars::TERM);
        Ok(Self {
            // What goes wrong is printed as the one error of the command.
            host: HostSettings::resolve(environment, "off")?,
            template,
            size: arguments.size,
            uplink: super::network::of_host(environment)?,
            network: super::network::asked(arguments.network.as_deref(), environment)?,
            timeout: arguments.timeout,
            env: variables(&arguments.env, environment)?,
            workdir: arguments.workdir,
            mounts: mounts(&arguments.mount_ro)?,
            user: arguments.user.unwrap_or_default(),
            argv,
            term: term.and_then(|(_, value)| value.to_str()).map(str::to_owned),
        })
    }
}

fn variables(
    given: &[String],
    environment: &Environment,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for item in given {
        match parse::variable(item)? {
            (name, Some(value)) => {
                all.insert(name, value);
            }
            (name, None) => {
                let value = environment.raw(OsStr::new(&name)).ok_or_else(|| {
                    Failure::usage(format!("--env {name}: not set in this environment"))
                        .hint(format!("give a value: --env {name}=VALUE"))
                })?;
                let value = super::text(&name, value)?;
                all.insert(name, value);
            }
        }
    }
    Ok(all)
}

/// Two at one place would hide one of them.
fn mounts(given: &[String]) -> Result<Vec<(PathBuf, String)>, Failure> {
    let all = given.iter().map(|item| mount(item)).collect::<Result<Vec<_>, _>>()?;
    let mut places = BTreeSet::new();
    for (_, inside) in &all {
        // As paths, so that `/a/` and `/a` are the same.
        let place: PathBuf = Path::new(inside).components().collect();
        if places.contains(&place) {
            return Err(Failure::usage(format!(
                "--mount-ro: two are to be at {}",
                place.display()
            ))
            .hint("give each a place of its own"));
        }
        places.insert(place);
    }
    Ok(all)
}

/// The host's path is the caller's and is made absolute here; whether it can be used is judged by
/// the driver, which opens it.
fn mount(item: &str) -> Result<(PathBuf, String), Failure> {
    let (host, inside) = parse::mount(item)?;
    let host = std::path::absolute(host)
        .map_err(|error| Failure::usage(format!("--mount-ro {item}: {error}")))?;
    Ok((host, inside.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn resolve(arguments: &[&str], pairs: &[(&str, &str)]) -> Result<RunSettings, Failure> {
        let all = ["holm", "run"].iter().chain(arguments);
        let Command::Run(arguments) = Cli::try_parse_from(all).unwrap().command else {
            panic!("not a run");
        };
        RunSettings::resolve(arguments, &Environment::of(pairs.iter().copied()))
    }

    #[test]
    fn the_command_keeps_its_own_flags() {
        let settings = resolve(&["-e", "A=1", "--", "ls", "--timeout", "-x"], &[]).unwrap();
        assert_eq!(settings.argv, ["ls", "--timeout", "-x"]);
        let settings = resolve(&["ls", "-l", "--", "-e"], &[]).unwrap();
        assert_eq!(settings.argv, ["ls", "-l", "--", "-e"]);
    }

    #[test]
    fn variables_may_come_from_the_environment() {
        let pairs = [("TOKEN", "from outside")];
        let settings =
            resolve(&["-e", "TOKEN", "-e", "B=x=y", "-e", "C=", "true"], &pairs).unwrap();
        let expected = [("B", "x=y"), ("C", ""), ("TOKEN", "from outside")];
        assert_eq!(
            settings.env,
            expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into_iter().collect()
        );
        assert!(resolve(&["-e", "ABSENT", "true"], &[]).is_err());
    }

    #[test]
    fn nothing_of_the_environment_goes_in_unasked() {
        let settings = resolve(&["true"], &[("SECRET", "x"), ("TERM", "xterm")]).unwrap();
        assert!(settings.env.is_empty());
        assert_eq!(settings.term.as_deref(), Some("xterm"));
    }

    #[test]
    fn mounts_get_an_absolute_host_path() {
        let settings = resolve(&["--mount-ro", "some/dir:/in", "true"], &[]).unwrap();
        assert!(settings.mounts[0].0.is_absolute());
        assert!(settings.mounts[0].0.ends_with("some/dir"));
        assert_eq!(settings.mounts[0].1, "/in");
    }

    #[test]
    fn two_mounts_have_two_places() {
        let both =
            |one: &str, two: &str| resolve(&["--mount-ro", one, "--mount-ro", two, "true"], &[]);
        assert_eq!(both("/x:/a", "/x:/b").unwrap().mounts.len(), 2);
        assert_eq!(both("/x:/a", "/y:/a/b").unwrap().mounts.len(), 2);
        for again in ["/y:/a", "/y:/a/", "/y://a/."] {
            let failure = both("/x:/a", again).unwrap_err();
            assert!(failure.message.contains("two are to be at /a"), "{failure:?}");
        }
    }
}
