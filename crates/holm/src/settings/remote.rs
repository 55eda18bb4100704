//! Where a service is and how it is reached, by the environment.

use holm_client::{ApiKey, Options, Proxies, Roots, Url};

use crate::env_vars::{self, Environment};
use crate::exit::Failure;

/// How to reach a service.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// For the client.
    pub options: Options,
    /// The variable that the key came from.
    pub key_variable: &'static str,
    /// The variable that the URL came from.
    pub url_variable: &'static str,
}

impl RemoteSettings {
    /// The service that the environment names; nothing where it names none.
    ///
    /// # Errors
    /// When there is a key and no service, a service elsewhere and no key, or a value is wrong.
    pub fn resolve(environment: &Environment) -> Result<Option<Self>, Failure> {
        let key = environment.get(env_vars::API_KEY);
        let Some((url_variable, url)) = environment.get(env_vars::URL) else {
            return match key {
                None => Ok(None),
                Some((name, _)) => Err(Failure::new(format!(
                    "{name} is set without {}, so it is not clear which service it is for; \
                     unset it or give --local",
                    env_vars::URL.name
                ))),
            };
        };
        let wrong = |error| Failure::new(format!("{url_variable} {error}"));
        let url = Url::service(&super::text(url_variable, url)?).map_err(wrong)?;
        let key_variable = key.map_or(env_vars::API_KEY.name, |(name, _)| name);
        let key = match key {
            Some((name, value)) => {
                let wrong = |error| Failure::new(format!("{name}: {error}"));
                Some(ApiKey::new(&super::text(name, value)?).map_err(wrong)?)
            }
            // A service on this machine may let everybody in; the command asks it.
            None if url.is_loopback() => None,
            None => return Err(no_key(url_variable)),
        };
        let mut options = Options::new(url);
        options.key = key;
        options.roots = roots(environment);
        options.proxies = proxies(environment)?;
        Ok(Some(Self { options, key_variable, url_variable }))
    }
}

/// The one line for a key that is required and not there.
#[must_use]
pub fn no_key(url_variable: &str) -> Failure {
    Failure::new(format!(
        "{url_variable} names a service that needs a key, and {} is not set",
        env_vars::API_KEY.name
    ))
}

/// Whose certificates are trusted.
pub(super) fn roots(environment: &Environment) -> Roots {
    let file = |variable| environment.get(variable).map(|(_, path)| path.into());
    Roots { instead: file(env_vars::SSL_CERT_FILE), also: file(env_vars::CA_FILE) }
}

fn proxies(environment: &Environment) -> Result<Proxies, Failure> {
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
        assert_eq!(settings.key_variable, "AAS_API_KEY");
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
    fn this_machine_may_need_no_key() {
        let settings = resolve(&[("HOLM_URL", "http://localhost:9000")]).unwrap().unwrap();
        assert!(settings.options.key.is_none());
    }
}
