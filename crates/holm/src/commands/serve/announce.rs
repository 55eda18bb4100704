//! What `holm serve` prints when it is ready: its URL and how to enter it into clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use holm_gateway::http::Access;
use serde_json::{Map, Value, json};

use crate::settings::ServeSettings;

/// The text for standard output. It never holds the token, only the variable's name.
pub(super) fn text(address: SocketAddr, settings: &ServeSettings) -> String {
    let url = format!("http://{}/mcp", reachable(address));
    let token = match settings.access {
        Access::Open => None,
        _ => Some(settings.token_variable),
    };
    let header = token.map(|name| format!(" \\\n    --header \"Authorization: Bearer ${name}\""));
    let mut entry = Map::new();
    entry.insert("type".to_owned(), "http".into());
    entry.insert("url".to_owned(), url.as_str().into());
    if let Some(name) = token {
        let value = format!("Bearer ${{{name}}}");
        entry.insert("headers".to_owned(), json!({"Authorization": value}));
    }
    let configuration = json!({"mcpServers": {"holm": Value::Object(entry)}});
    format!(
        "holm is serving MCP at {url}\n\n\
         Claude Code:\n  claude mcp add --transport http holm {url}{}\n\n\
         Clients that take JSON:\n{configuration:#}\n",
        header.unwrap_or_default(),
    )
}

/// An address that a client on this machine can use: nobody can connect to "all of them".
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ServeArgs;
    use crate::env_vars::Environment;

    fn shown(bind: &str, pairs: &[(&str, &str)]) -> String {
        let bind = Some(bind.parse().expect("an address"));
        let arguments = ServeArgs { bind, ..ServeArgs::default() };
        let environment = Environment::of(pairs.iter().copied());
        let settings = ServeSettings::resolve(arguments, &environment).expect("settings");
        text(settings.address, &settings)
    }

    #[test]
    fn what_can_be_pasted() {
        let open = shown("127.0.0.1", &[]);
        assert!(
            open.contains("mcp add --transport http holm http://127.0.0.1:9000/mcp\n"),
            "{open}"
        );
        assert!(!open.contains("Authorization"), "{open}");
        let token = shown("0.0.0.0", &[("ABX_MCP_AUTH_TOKEN", "x-marker-x")]);
        assert!(token.contains("http://127.0.0.1:9000/mcp"), "{token}");
        assert!(token.contains("Bearer $ABX_MCP_AUTH_TOKEN\""), "{token}");
        assert!(token.contains("Bearer ${ABX_MCP_AUTH_TOKEN}\""), "{token}");
        assert!(!token.contains("x-marker-x"), "{token}");
        assert!(shown("::1", &[]).contains("http://[::1]:9000/mcp"));
    }
}
