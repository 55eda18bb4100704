//! What `holm serve` prints when it is ready: its URL and how to enter it into clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::service::FirstKey;
use crate::settings::Auth;

/// What clients send, as it is shown.
struct Credential {
    /// In a command for a shell.
    shell: String,
    /// In a configuration for clients, most of which put variables in.
    json: String,
    /// Where it is to be had.
    note: Option<String>,
}

/// The text for standard output. A token is never in it, only its variable's name; the first key
/// is when it was made just now and `shown` says that a person reads this.
pub(super) fn text(
    (scheme, address): (&str, SocketAddr),
    auth: &Auth,
    key: &FirstKey,
    shown: bool,
) -> String {
    let url = format!("{scheme}://{}/mcp", reachable(address));
    let credential = credential(auth, key, shown);
    let mut entry = Map::new();
    entry.insert("type".to_owned(), "http".into());
    entry.insert("url".to_owned(), url.as_str().into());
    let (mut header, mut note) = (String::new(), String::new());
    if let Some(credential) = credential {
        let value = format!("Bearer {}", credential.json);
        entry.insert("headers".to_owned(), json!({"Authorization": value}));
        header = format!(" \\\n    --header \"Authorization: Bearer {}\"", credential.shell);
        note = credential.note.map(|note| format!("{note}\n\n")).unwrap_or_default();
    }
    let configuration = json!({"mcpServers": {"holm": Value::Object(entry)}});
    format!(
        "holm is serving MCP at {url}\n\n{note}\
         Claude Code:\n  claude mcp add --transport http holm {url}{header}\n\n\
         Clients that take JSON:\n{configuration:#}\n",
    )
}

fn credential(auth: &Auth, key: &FirstKey, shown: bool) -> Option<Credential> {
    let variable = |name: &str, note: Option<String>| Credential {
        shell: format!("${name}"),
        json: format!("${{{name}}}"),
        note,
    };
    match (auth, key) {
        (Auth::None, _) => None,
        (Auth::Token(name, _), _) => Some(variable(name, None)),
        (Auth::Keys, FirstKey { made: Some(made), file: Some(file) }) if shown => {
            let key = made.reveal();
            let note = format!(
                "The first key, shown only now and kept in {}:\n  {key}\n\
                 Make further ones with `holm key create`.",
                file.display()
            );
            Some(Credential { shell: key.to_owned(), json: key.to_owned(), note: Some(note) })
        }
        (Auth::Keys, FirstKey { file: Some(file), .. }) => {
            let note = format!(
                "The first key is in {}; make further ones with `holm key create`.",
                file.display()
            );
            Some(Credential {
                shell: format!("$(cat {})", quoted(file)),
                ..variable("HOLM_API_KEY", Some(note))
            })
        }
        (Auth::Keys, _) => Some(variable(
            "HOLM_API_KEY",
            Some("Clients need a key; make one with `holm key create`.".to_owned()),
        )),
    }
}

/// A path as a shell takes it inside of double quotes and `$(…)`, where quotes begin anew.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,:@".contains(&byte);
    match path.bytes().all(plain) {
        true => path,
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
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
    use holm_engine::KeyText;
    use holm_gateway::http::access::Secret;

    use super::*;

    fn shown(address: &str, auth: &Auth, key: &FirstKey, terminal: bool) -> String {
        text(("http", address.parse().expect("an address")), auth, key, terminal)
    }

    fn none() -> FirstKey {
        FirstKey { file: None, made: None }
    }

    #[test]
    fn what_can_be_pasted() {
        let open = shown("127.0.0.1:9000", &Auth::None, &none(), true);
        let line = "mcp add --transport http holm http://127.0.0.1:9000/mcp\n";
        assert!(open.contains(line), "{open}");
        assert!(!open.contains("Authorization"), "{open}");
        let auth = Auth::Token("ABX_MCP_AUTH_TOKEN", Secret::new("x-marker-x"));
        let token = shown("0.0.0.0:9000", &auth, &none(), true);
        assert!(token.contains("http://127.0.0.1:9000/mcp"), "{token}");
        assert!(token.contains("Bearer $ABX_MCP_AUTH_TOKEN\""), "{token}");
        assert!(token.contains("Bearer ${ABX_MCP_AUTH_TOKEN}\""), "{token}");
        assert!(!token.contains("x-marker-x"), "{token}");
        let other = shown("[::1]:9000", &Auth::Keys, &none(), true);
        assert!(other.contains("http://[::1]:9000/mcp"), "{other}");
        assert!(other.contains("holm key create"), "{other}");
    }

    #[test]
    fn case_71_the_first_key_is_shown_once_and_only_to_a_person() {
        let made = KeyText::random().expect("a key");
        let text = made.reveal().to_owned();
        let file = Some("/var/lib/holm/first-key".into());
        let key = FirstKey { file: file.clone(), made: Some(made) };
        let person = shown("127.0.0.1:1", &Auth::Keys, &key, true);
        assert_eq!(person.matches(&text).count(), 3, "{person}");
        let piped = shown("127.0.0.1:1", &Auth::Keys, &key, false);
        let again = shown("127.0.0.1:1", &Auth::Keys, &FirstKey { file, made: None }, true);
        for said in [piped, again] {
            assert!(!said.contains(&text), "{said}");
            assert!(said.contains("Bearer $(cat /var/lib/holm/first-key)\""), "{said}");
            assert!(said.contains("Bearer ${HOLM_API_KEY}\""), "{said}");
        }
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
        assert_eq!(quoted(Path::new("/a/b.c-d")), "/a/b.c-d");
    }
}
