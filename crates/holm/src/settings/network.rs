//! What settings say about sandboxes' networks.

use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};

use holm_engine::{EgressPolicy, GateLimits, Proxy, Rule, UplinkOptions};

use super::layers::{Layers, named};
use super::limits;
use super::parse;
use super::table::{self, Setting};
use crate::env_vars::{self, Environment};
use crate::exit::Failure;

/// Where gates of sandboxes lead to, as the settings of a service say.
pub(super) fn uplink(
    layers: &Layers<'_>,
    environment: &Environment,
) -> Result<UplinkOptions, Failure> {
    let what = "a whole number of bytes, 0 for no limit";
    let limits = GateLimits {
        connections: limits::count(layers, &table::NETWORK_CONNECTIONS)?,
        connections_total: limits::count(layers, &table::NETWORK_CONNECTIONS_TOTAL)?,
        bandwidth: layers.read(&table::NETWORK_BANDWIDTH, what, |text| text.parse().ok())?,
        ..GateLimits::default()
    };
    Ok(UplinkOptions {
        deny: list(layers, &table::NETWORK_DENY, |item| {
            item.parse::<Rule>().map_err(|error| error.to_string())
        })?,
        resolvers: resolvers(layers)?,
        limits,
        // As many as there are accounts.
        has_one_owner: false,
        ..of_host(environment)?
    })
}

/// The same of an embedded engine: as the host reaches the world.
pub(super) fn of_host(environment: &Environment) -> Result<UplinkOptions, Failure> {
    let variable = |name: &str| {
        let value = environment.raw(OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    };
    let proxy = Proxy::from_env(variable).map_err(|error| Failure::new(error.to_string()))?;
    let trust = environment.get(env_vars::SSL_CERT_FILE).map(|(_, path)| path.into());
    Ok(UplinkOptions { proxy, trust, has_one_owner: true, ..UplinkOptions::default() })
}

/// What sandboxes may reach whose creators say nothing.
pub(super) fn policy(layers: &Layers<'_>) -> Result<EgressPolicy, Failure> {
    let (origin, text) = layers.text(&table::NETWORK)?;
    parse::network(&named(&table::NETWORK, &origin), &text)
}

/// The flag, else the variable.
pub(super) fn asked(
    flag: Option<&str>,
    environment: &Environment,
) -> Result<Option<EgressPolicy>, Failure> {
    let (name, text) = match (flag, super::variable(environment, env_vars::NETWORK)?) {
        (Some(text), _) => ("--network", text.to_owned()),
        (None, Some(text)) => (env_vars::NETWORK.name, text),
        (None, None) => return Ok(None),
    };
    parse::network(name, &text).map(Some)
}

fn resolvers(layers: &Layers<'_>) -> Result<Option<Vec<SocketAddr>>, Failure> {
    let found = list(layers, &table::NETWORK_RESOLVERS, |item| {
        let with_port = item.parse::<SocketAddr>().ok();
        let read = with_port.or_else(|| Some(SocketAddr::new(item.parse::<IpAddr>().ok()?, 53)));
        read.ok_or_else(|| {
            format!("`{item}` is no address such as 192.0.2.53 or [2001:db8::53]:53")
        })
    })?;
    Ok((!found.is_empty()).then_some(found))
}

/// A list with commas.
fn list<T>(
    layers: &Layers<'_>,
    setting: &Setting,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Failure> {
    let (origin, text) = layers.text(setting)?;
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let failure = |what| Failure::usage(format!("{}: {what}", named(setting, &origin)));
    items.map(|item| read(item).map_err(failure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_comes_before_the_variable_and_both_say_what_they_take() {
        let environment = Environment::of([("HOLM_NETWORK", "none")]);
        let check = |flag: Option<&str>, want: &str| {
            let got = asked(flag, &environment).expect("a policy").expect("one");
            assert_eq!(got.to_string(), want);
        };
        check(None, "none");
        check(Some("open"), "open");
        check(
            Some("allow:api.example.com,*.x.org:443;deny:a.x.org"),
            "allow:api.example.com,*.x.org:443;deny:a.x.org",
        );
        assert_eq!(asked(None, &Environment::default()).expect("nothing"), None);
        let failure = asked(Some("closed"), &environment).expect_err("no mode");
        assert!(failure.message.contains("--network") && failure.message.contains("closed"));
        assert!(failure.hint.expect("a hint").contains("allow:"));
    }
}
