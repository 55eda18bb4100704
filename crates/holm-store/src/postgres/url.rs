//! The database's URL, and whether the way there is encrypted.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::StoreError;

const CONNECT: Duration = Duration::from_secs(10);
/// How long sent bytes may go unconfirmed: the other machine is gone then.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Whose signature a server needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Roots {
    System,
    File(PathBuf),
}

/// Where to connect to.
#[derive(Debug)]
pub(super) struct Target {
    pub config: Config,
    pub tls: Option<Roots>,
}

/// Reads a URL. No error repeats it: it may hold a password.
pub(super) fn read(url: &str) -> Result<Target, StoreError> {
    let scheme = ["postgres://", "postgresql://"].iter().any(|start| url.starts_with(start));
    if !scheme {
        return Err(StoreError::invalid(
            "the database URL must begin with postgres:// (or name no server at all, for SQLite)",
        ));
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut roots, mut others) = (None, Roots::System, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value),
            Some(("sslrootcert", "system")) => roots = Roots::System,
            Some(("sslrootcert", path)) => roots = Roots::File(PathBuf::from(path)),
            _ => others.push(pair),
        }
    }
    let rest =
        if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    // The parser's errors name a parameter or a position, never the text.
    let mut config = Config::from_str(&rest)
        .map_err(|_| StoreError::invalid("the database URL cannot be read"))?;
    let encrypted = match mode {
        None => !config.get_hosts().iter().all(is_here),
        Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        Some(_) => {
            return Err(StoreError::invalid(
                "sslmode in the database URL must be disable, require or verify-full: one that \
                 falls back to plain text protects from nobody",
            ));
        }
    };
    config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
    config.connect_timeout(CONNECT);
    config.tcp_user_timeout(UNANSWERED);
    Ok(Target { config, tls: encrypted.then_some(roots) })
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_encrypted_unless_it_stays_on_the_machine() {
        let check =
            |url: &str, want: Option<Roots>| assert_eq!(read(url).unwrap().tls, want, "{url}");
        check("postgres://u@127.0.0.1/d", None);
        check("postgres://u@[::1]/d", None);
        check("postgres://u@localhost/d", None);
        check("postgres://u@%2Frun%2Fpostgresql/d", None);
        check("postgresql://u:p@db.example/d", Some(Roots::System));
        check("postgres://u@db.example/d?sslmode=disable", None);
        check("postgres://u@127.0.0.1/d?sslmode=verify-full", Some(Roots::System));
        let file = Some(Roots::File("/ca.pem".into()));
        check("postgres://u@h/d?sslrootcert=/ca.pem&connect_timeout=3&sslmode=require", file);
    }

    #[test]
    fn wrong_urls_are_refused_without_repeating_them() {
        for url in [
            "mysql://u:secret@h/d",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?sslmode=prefer",
            "postgres://u:secret@h/d?nonsense=1",
        ] {
            let error = read(url).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(matches!(error, StoreError::Invalid { .. }), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
