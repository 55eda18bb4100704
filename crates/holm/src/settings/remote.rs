//! Where a service is and how it is reached.

use std::path::Path;

use holm_client::{ApiKey, Options, Proxies, Roots, Url};

use crate::env_vars::{self, Environment};
use crate::exit::Failure;

/// How to reach a service.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// For the client.
    pub options: Options,
    /// The variable or flag that the key came from, or would come from.
    pub key_from: &'static str,
    /// The variable or flag that the URL came from.
    pub url_from: &'static str,
}

impl RemoteSettings {
    /// The service that the environment names; nothing where it names none.
    ///
    /// # Errors
    /// When there is a key and no service, a service elsewhere and no key, or a value is wrong.
    pub fn resolve(environment: &Environment) -> Result<Option<Self>, Failure> {
        let key = environment.get(env_vars::API_KEY);
        let Some((url_from, url)) = environment.get(env_vars::URL) else {
            return match key {
                None => Ok(None),
                Some((name, _)) => Err(Failure::new(format!(
                    "{name} is set without {}, so it is not clear which service it is for; \
                     unset it or give --local",
                    env_vars::URL.name
                ))),
            };
        };
        let mut options = options(url_from, &super::text(url_from, url)?, environment)?;
        let key_from = match key {
            Some((name, value)) => {
                options.key = Some(read_key(name, &super::text(name, value)?)?);
                name
            }
            // A service on this machine may let everybody in; the command asks it.
            None if options.url.is_loopback() => env_vars::API_KEY.name,
            None => return Err(no_key(url_from)),
        };
        Ok(Some(Self { options, key_from, url_from }))
    }

    /// The service that the environment names.
    ///
    /// # Errors
    /// As [`Self::resolve`], and where it names none.
    pub fn required(environment: &Environment) -> Result<Self, Failure> {
        Self::resolve(environment)?.ok_or_else(|| {
            Failure::usage(format!("{} is not set, so there is no service", env_vars::URL.name))
                .hint("set it to the URL that `holm serve` prints, and HOLM_API_KEY to a key")
        })
    }

    /// The service that an administrator names by a flag, else the environment; nothing where
    /// neither does. The key is in a file, else in the environment.
    ///
    /// # Errors
    /// When there is no key, or a value is wrong.
    pub fn administered(
        url: Option<&str>,
        key_file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Option<Self>, Failure> {
        let mut options = match (url, environment.get(env_vars::URL)) {
            (Some(url), _) => ("--url", options("--url", url, environment)?),
            (None, Some((name, url))) => {
                (name, options(name, &super::text(name, url)?, environment)?)
            }
            (None, None) => return Ok(None),
        };
        let key_from = match (key_file, environment.get(env_vars::API_KEY)) {
            (Some(file), _) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::new(format!("the key file {}: {error}", file.display()))
                })?;
                options.1.key = Some(read_key("--key-file", &text)?);
                "--key-file"
            }
            (None, Some((name, value))) => {
                options.1.key = Some(read_key(name, &super::text(name, value)?)?);
                name
            }
            (None, None) => {
                return Err(Failure::new(format!(
                    "{} names a service, which needs an administrator's key, and {} is not set",
                    options.0,
                    env_vars::API_KEY.name
                ))
                .hint("set it, give --key-file, or work on the database itself with --data-dir"));
            }
        };
        let (url_from, options) = options;
        Ok(Some(Self { options, key_from, url_from }))
    }
}

/// The way to the service at a URL, without a key yet.
fn options(from: &str, url: &str, environment: &Environment) -> Result<Options, Failure> {
    let url = Url::service(url).map_err(|error| Failure::new(format!("{from} {error}")))?;
    let mut options = Options::new(url);
    options.roots = roots(environment);
    options.proxies = proxies(environment)?;
    Ok(options)
}

fn read_key(from: &str, text: &str) -> Result<ApiKey, Failure> {
    ApiKey::new(text).map_err(|error| Failure::new(format!("{from}: {error}")))
}

/// The one line for a key that is required and not there.
#[must_use]
pub fn no_key(url_from: &str) -> Failure {
    Failure::new(format!(
        "{url_from} names a service that needs a key, and {} is not set",
        env_vars::API_KEY.name
    ))
}

/// Whose certificates are trusted.
pub(super) fn roots(environment: &Environment) -> Roots {
    let file = |variable| environment.get(variable).map(|(_, path)| path.into());
    Roots { instead: file(env_vars::SSL_CERT_FILE), also: file(env_vars::CA_FILE) }
}

pub(super) fn proxies(environment: &Environment) -> Result<Proxies, Failure> {
    let text = |variable| super::variable(environment, variable);
    let http = text(env_vars::HTTP_PROXY)?;
    let https = text(env_vars::HTTPS_PROXY)?;
    let except = text(env_vars::NO_PROXY)?;
    Proxies::new(http.as_deref(), https.as_deref(), except.as_deref())
        .map_err(|(name, error)| Failure::new(format!("{name} {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(pairs: &[(&str, &str)]) -> Result<Option<RemoteSettings>, Failure> {
        RemoteSettings::resolve(&Environment::of(pairs.iter().copied()))
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        let failure = resolve(pairs).expect_err("refused");
        assert_eq!((failure.code, failure.hint), (1, None), "{pairs:?}");
        assert!(!failure.message.contains('\n'), "one line: {}", failure.message);
        assert!(!failure.message.contains("x-marker-x"), "{}", failure.message);
        failure.message
    }

    #[test]
    fn the_first_url_and_the_first_key_count() {
        let settings = resolve(&[
            ("ABX_SANDBOX_BASE_URL", "https://b.example"),
            ("HOLM_URL", "https://a.example/mcp"),
            ("AAS_API_KEY", "x-marker-x"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.options.url.origin(), "https://a.example");
        assert_eq!(settings.key_from, "AAS_API_KEY");
        assert!(!format!("{settings:?}").contains("x-marker-x"));
        assert!(resolve(&[]).unwrap().is_none());
        assert!(resolve(&[("HOLM_URL", ""), ("HOLM_API_KEY", "")]).unwrap().is_none());
    }

    #[test]
    fn what_is_missing_or_wrong_is_one_line() {
        for name in ["HOLM_API_KEY", "ABX_SANDBOX_API_KEY", "AAS_API_KEY"] {
            assert!(refused(&[(name, "x-marker-x")]).contains(name));
        }
        for name in ["HOLM_URL", "ABX_SANDBOX_BASE_URL"] {
            let text = refused(&[(name, "https://a.example")]);
            assert!(text.contains(name) && text.contains("HOLM_API_KEY"), "{text}");
            assert!(refused(&[(name, "x-marker-x")]).contains(name));
        }
        let key = ("HOLM_API_KEY", "x-marker-x");
        let url = ("HOLM_URL", "https://a.example");
        assert!(refused(&[url, ("HOLM_API_KEY", "x-marker-x y")]).contains("HOLM_API_KEY"));
        assert!(refused(&[url, key, ("https_proxy", "socks://x-marker-x")]).contains("PROXY"));
        assert!(refused(&[("HOLM_URL", "https://u:x-marker-x@a"), key]).contains("HOLM_URL"));
    }

    #[test]
    fn an_administrator_names_service_and_key_by_flag_or_variable() {
        let administered = |url: Option<&str>, file: Option<&Path>, pairs: &[(&str, &str)]| {
            let environment = Environment::of(pairs.iter().copied());
            RemoteSettings::administered(url, file, &environment)
                .map(|found| found.map(|found| (found.url_from, found.key_from)))
                .map_err(|failure| failure.message)
        };
        let (url, key) = (("HOLM_URL", "http://localhost:9000"), ("HOLM_API_KEY", "x-marker-x"));
        assert_eq!(administered(None, None, &[]), Ok(None));
        // A key alone may be there for other things.
        assert_eq!(administered(None, None, &[key]), Ok(None));
        assert_eq!(administered(None, None, &[url, key]), Ok(Some(("HOLM_URL", "HOLM_API_KEY"))));
        let flag = Some("https://a.example");
        assert_eq!(administered(flag, None, &[url, key]), Ok(Some(("--url", "HOLM_API_KEY"))));
        for url in [&[url][..], &[("ABX_SANDBOX_BASE_URL", "https://b.example")]] {
            let text = administered(None, None, url).expect_err("no key");
            assert!(text.contains(url[0].0) && text.contains("HOLM_API_KEY"), "{text}");
        }
        let missing = administered(flag, Some(Path::new("/nonexistent/key")), &[key]);
        assert!(missing.expect_err("no file").contains("/nonexistent/key"));
        let wrong = administered(flag, None, &[("HOLM_API_KEY", "x-marker-x y")]);
        assert!(!wrong.expect_err("no key").contains("marker"));
    }

    #[test]
    fn this_machine_may_need_no_key() {
        let settings = resolve(&[("HOLM_URL", "http://localhost:9000")]).unwrap().unwrap();
        assert!(settings.options.key.is_none());
    }
}
