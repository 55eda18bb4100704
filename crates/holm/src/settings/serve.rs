//! Settings of `holm serve`.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use holm_gateway::http::access::Secret;

use super::HostSettings;
use clap::ValueEnum as _;

use crate::cli::{AuthMode, OnStop, ServeArgs};
use crate::env_vars::{self, EnvVar, Environment};
use crate::exit::Failure;
use crate::output::Paint;
use crate::service::Database;

/// The port where none is asked for.
pub const DEFAULT_PORT: u16 = 9000;

/// Resolved settings.
#[derive(Debug)]
pub struct ServeSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Where to listen.
    pub address: SocketAddr,
    /// Who is let in.
    pub auth: Auth,
    /// Where accounts, keys, sandboxes and the ledger are.
    pub database: Database,
    /// What becomes of sandboxes when it is stopped.
    pub on_stop: OnStop,
    /// Origins of web pages that may use the service.
    pub allowed_origins: Vec<String>,
    /// Template of sandboxes that name none; `None` leaves it to the engine.
    pub template: Option<String>,
    /// Most sandboxes at once; `None` leaves it to the engine.
    pub max_sandboxes: Option<usize>,
    /// Colours in the log.
    pub log_colours: bool,
}

impl ServeSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When a value is wrong, or anybody on the network would be let in.
    pub fn resolve(arguments: ServeArgs, environment: &Environment) -> Result<Self, Failure> {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let ip = match arguments.bind {
            Some(ip) => ip,
            None => parsed(environment, env_vars::BIND, "an IP address")?.unwrap_or(loopback),
        };
        let port = match arguments.port {
            Some(port) => port,
            None => parsed(environment, env_vars::PORT, "a port")?.unwrap_or(DEFAULT_PORT),
        };
        let auth = auth(arguments.auth, environment)?;
        if !ip.to_canonical().is_loopback() {
            refuse_open(ip, &auth)?;
        }
        let database = super::database(arguments.database.as_deref(), environment)?;
        let on_stop = match arguments.on_stop {
            Some(on_stop) => on_stop,
            None => on_stop(environment)?,
        };
        let template = match arguments.template {
            Some(template) => Some(template),
            None => super::variable(environment, env_vars::DEFAULT_TEMPLATE)?,
        };
        Ok(Self {
            host: HostSettings::resolve(environment, "info")?.with_data_dir(arguments.data_dir)?,
            address: SocketAddr::new(ip, port),
            auth,
            database,
            on_stop,
            allowed_origins: origins(environment)?,
            template,
            max_sandboxes: super::max_sandboxes(arguments.max_sandboxes, environment)?,
            log_colours: Paint::stderr(environment).is_on(),
        })
    }
}

fn on_stop(environment: &Environment) -> Result<OnStop, Failure> {
    let Some((name, value)) = environment.get(env_vars::ON_STOP) else {
        return Ok(OnStop::default());
    };
    let value = super::text(name, value)?;
    OnStop::from_str(&value, false)
        .map_err(|_| Failure::usage(format!("{name} must be keep or end, not `{value}`")))
}

/// Who is let in.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Who has a key of an account.
    Keys,
    /// Who has the one token, which came from this variable. Nobody where it is blank.
    Token(&'static str, Option<Secret>),
    /// Everybody.
    None,
}

/// Who is let in. A token that is set but blank counts: it lets nobody in, where leaving it out
/// would let others in.
fn auth(mode: Option<AuthMode>, environment: &Environment) -> Result<Auth, Failure> {
    let variable = env_vars::AUTH_TOKEN;
    let names = std::iter::once(variable.name).chain(variable.aliases.iter().copied());
    let set = names
        .filter_map(|name| Some((name, environment.raw(OsStr::new(name))?)))
        .max_by_key(|(_, value)| !value.is_empty());
    match (mode, set) {
        (Some(AuthMode::None), _) => Ok(Auth::None),
        (Some(AuthMode::Keys), _) | (None, None) => Ok(Auth::Keys),
        (Some(AuthMode::Token), None) => {
            Err(Failure::usage(format!("--auth token needs {}", variable.name))
                .hint("make one with `openssl rand -base64 32`"))
        }
        (_, Some((name, value))) => Ok(Auth::Token(name, Secret::new(&super::text(name, value)?))),
    }
}

fn refuse_open(ip: IpAddr, auth: &Auth) -> Result<(), Failure> {
    let problem = match auth {
        Auth::None => "would let everybody on the network in",
        Auth::Token(_, None) => "needs a token that is not blank",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("listening at {ip} {problem}")).hint(format!(
        "let clients in by key (the default), set {} (make one with `openssl rand -base64 32`), \
         or listen at 127.0.0.1",
        env_vars::AUTH_TOKEN.name
    )))
}

fn parsed<T: std::str::FromStr>(
    environment: &Environment,
    variable: EnvVar,
    what: &str,
) -> Result<Option<T>, Failure> {
    let Some((name, value)) = environment.get(variable) else { return Ok(None) };
    let value = super::text(name, value)?;
    let wrong = |_| Failure::usage(format!("{name} must be {what}, not `{value}`"));
    value.parse().map(Some).map_err(wrong)
}

/// A list with commas. What is no origin would never match, so it is a mistake.
fn origins(environment: &Environment) -> Result<Vec<String>, Failure> {
    let Some((name, value)) = environment.get(env_vars::ALLOWED_ORIGINS) else {
        return Ok(Vec::new());
    };
    let text = super::text(name, value)?;
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let authority = item.split_once("://").map_or("", |(_, authority)| authority);
            if authority.is_empty() || authority.contains('/') {
                return Err(Failure::usage(format!("{name}: `{item}` is not an origin"))
                    .hint("an origin is scheme, host and port, such as https://app.example"));
            }
            Ok(item.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(arguments: ServeArgs, pairs: &[(&str, &str)]) -> Result<ServeSettings, Failure> {
        ServeSettings::resolve(arguments, &Environment::of(pairs.iter().copied()))
    }

    fn bind(ip: &str) -> ServeArgs {
        ServeArgs { bind: Some(ip.parse().expect("an address")), ..ServeArgs::default() }
    }

    #[test]
    fn flags_come_before_the_environment_before_defaults() {
        let pairs = [("HOLM_BIND", "127.0.0.2"), ("HOLM_PORT", "7")];
        assert_eq!(
            resolve(ServeArgs::default(), &[]).unwrap().address.to_string(),
            "127.0.0.1:9000"
        );
        assert_eq!(
            resolve(ServeArgs::default(), &pairs).unwrap().address.to_string(),
            "127.0.0.2:7"
        );
        let arguments = ServeArgs { port: Some(0), ..bind("::1") };
        assert_eq!(resolve(arguments, &pairs).unwrap().address.to_string(), "[::1]:0");
        for pair in
            [("HOLM_BIND", "localhost"), ("HOLM_PORT", "99999"), ("HOLM_MAX_SANDBOXES", "0")]
        {
            assert_eq!(resolve(ServeArgs::default(), &[pair]).unwrap_err().code, 2, "{pair:?}");
        }
    }

    #[test]
    fn the_token_decides_who_is_let_in() {
        let check = |mode, pairs: &[(&str, &str)], expected: &str| {
            let arguments = ServeArgs { auth: mode, ..ServeArgs::default() };
            let settings = resolve(arguments, pairs).unwrap();
            let got = match settings.auth {
                Auth::Keys => "keys",
                Auth::Token(_, Some(_)) => "token",
                Auth::Token(_, None) => "closed",
                Auth::None => "open",
            };
            assert_eq!(got, expected, "{mode:?} {pairs:?}");
        };
        check(None, &[], "keys");
        check(None, &[("ABX_MCP_AUTH_TOKEN", "t")], "token");
        check(None, &[("HOLM_AUTH_TOKEN", "t")], "token");
        check(None, &[("ABX_MCP_AUTH_TOKEN", "")], "closed");
        check(None, &[("ABX_MCP_AUTH_TOKEN", " ")], "closed");
        check(None, &[("ABX_MCP_AUTH_TOKEN", "t"), ("HOLM_AUTH_TOKEN", "")], "token");
        check(Some(AuthMode::Token), &[("HOLM_AUTH_TOKEN", "")], "closed");
        check(Some(AuthMode::None), &[("ABX_MCP_AUTH_TOKEN", "t")], "open");
        check(Some(AuthMode::Keys), &[("ABX_MCP_AUTH_TOKEN", "t")], "keys");
        let arguments = ServeArgs { auth: Some(AuthMode::Token), ..ServeArgs::default() };
        assert_eq!(resolve(arguments, &[]).unwrap_err().code, 2);
        let settings = resolve(ServeArgs::default(), &[("HOLM_AUTH_TOKEN", "x-marker-x")]).unwrap();
        assert!(!format!("{settings:?}").contains("x-marker-x"));
    }

    #[test]
    fn case_89_other_addresses_than_loopback_need_keys_or_a_token() {
        for ip in ["0.0.0.0", "192.0.2.1", "::", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(resolve(bind(ip), &[]).is_ok(), "{ip}");
            assert_eq!(resolve(bind(ip), &[("HOLM_AUTH_TOKEN", " ")]).unwrap_err().code, 2, "{ip}");
            let open = ServeArgs { auth: Some(AuthMode::None), ..bind(ip) };
            assert_eq!(resolve(open, &[("HOLM_AUTH_TOKEN", "t")]).unwrap_err().code, 2, "{ip}");
            assert!(resolve(bind(ip), &[("HOLM_AUTH_TOKEN", "t")]).is_ok(), "{ip}");
        }
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(resolve(bind(ip), &[]).is_ok(), "{ip}");
        }
    }

    #[test]
    fn origins_are_a_list_of_origins() {
        let check = |value: &str, expected: Option<&[&str]>| {
            let settings = resolve(ServeArgs::default(), &[("ABX_MCP_ALLOWED_ORIGINS", value)]);
            let got = settings.ok().map(|settings| settings.allowed_origins);
            let expected = expected.map(|list| list.iter().map(ToString::to_string).collect());
            assert_eq!(got, expected, "{value}");
        };
        check("", Some(&[]));
        check("https://a.example", Some(&["https://a.example"]));
        check("https://a.example, http://b:1,", Some(&["https://a.example", "http://b:1"]));
        check("a.example", None);
        check("https://a.example/", None);
        check("*", None);
    }
}
