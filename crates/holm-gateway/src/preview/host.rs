//! Names of previews: `<port>-<18 hex digits>.<domain>`.

use std::fmt;
use std::str::FromStr;

use holm_engine::SandboxId;
use hyper::Request;
use hyper::header::HOST;

/// The domain below which previews are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain(String);

/// What a request's host is to previews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Not below the domain: somebody else's.
    Foreign,
    /// Below the domain, and not the name of a preview.
    Nothing,
    /// The name of a preview.
    Named(SandboxId, u16),
}

impl Default for Domain {
    /// `localhost`: browsers know by themselves that everything below it is this machine.
    fn default() -> Self {
        Self("localhost".to_owned())
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for Domain {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        // The longest name of a preview has 25 characters more, with its dot.
        let fits = text.len() <= 253 - 25 && text.split('.').all(is_label);
        // A name that ends in digits is an address.
        let last = text.rsplit('.').next().unwrap_or_default();
        let is_name = !last.bytes().all(|byte| byte.is_ascii_digit());
        (fits && is_name).then(|| Self(text.to_ascii_lowercase())).ok_or(())
    }
}

impl Domain {
    /// The host of a preview.
    #[must_use]
    pub fn host(&self, id: &SandboxId, port: u16) -> String {
        format!("{port}-{}.{}", id.digits(), self.0)
    }

    /// Whose request this is. Of two names in one request each counts.
    #[must_use]
    pub fn claim<B>(&self, request: &Request<B>) -> Claim {
        // A request in absolute form names its host there, and that one counts.
        if let Some(authority) = request.uri().authority() {
            return self.judge(authority.as_str());
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        let judge = |value: &hyper::header::HeaderValue| {
            self.judge(&String::from_utf8_lossy(value.as_bytes()))
        };
        match (hosts.next(), hosts.next()) {
            (None, _) => Claim::Foreign,
            (Some(only), None) => judge(only),
            _ => {
                let all = request.headers().get_all(HOST);
                let is_foreign = all.iter().all(|value| judge(value) == Claim::Foreign);
                if is_foreign { Claim::Foreign } else { Claim::Nothing }
            }
        }
    }

    /// The same of a host with or without its port.
    #[must_use]
    pub fn judge(&self, authority: &str) -> Claim {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        // Most names are in small letters already.
        let lowered;
        let host = match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => {
                lowered = host.to_ascii_lowercase();
                &*lowered
            }
            false => host,
        };
        let (plain, dotted) = match host.strip_suffix('.') {
            Some(plain) => (plain, true),
            None => (host, false),
        };
        let below = plain.strip_suffix(&*self.0).and_then(|rest| rest.strip_suffix('.'));
        let Some(label) = below else { return Claim::Foreign };
        // With a dot at its end it is another origin to browsers, and no link leads there.
        let good_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
        match read(label) {
            Some((id, number)) if !dotted && good_port => Claim::Named(id, number),
            _ => Claim::Nothing,
        }
    }
}

/// Reads `<port>-<18 hex digits>`, in the one form that it has.
fn read(label: &str) -> Option<(SandboxId, u16)> {
    let (port, digits) = label.split_once('-')?;
    let is_plain = !port.starts_with('0') && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|_| is_plain)?;
    // An id is read with its prefix too, which a name must not have.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((digits.parse().ok().filter(|_| is_hex)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef01";

    #[test]
    fn names_have_one_form() {
        let domain = Domain::default();
        let named = |port| Claim::Named(HEX.parse().expect("an id"), port);
        let check = |host: &str, want: Claim| {
            let host = host.replace("HEX", HEX).replace("BIG", &HEX.to_uppercase());
            assert_eq!(domain.judge(&host), want, "{host}");
        };
        check("8080-HEX.localhost", named(8080));
        check("8080-HEX.localhost:9000", named(8080));
        check("8080-HEX.localhost:1", named(8080));
        check("65535-BIG.LocalHost:9000", named(65535));
        check("1-HEX.localhost", named(1));
        for wrong in [
            "8080-HEX.localhost:other",
            "8080-HEX.localhost:",
            "8080-HEX.localhost:65536",
            "8080-HEX.localhost.",
            "8080-HEX.localhost.:9000",
            "0-HEX.localhost",
            "08080-HEX.localhost",
            "65536-HEX.localhost",
            "+80-HEX.localhost",
            "-1-HEX.localhost",
            "-HEX.localhost",
            "HEX.localhost",
            "8080.localhost",
            "8080-.localhost",
            "8080-HEX0.localhost",
            "8080-sbx_HEX.localhost",
            "8080-HEX.8080-HEX.localhost",
            "a.8080-HEX.localhost",
            "8080-HEX.evil.localhost",
            "８080-HEX.localhost",
            "8080-HÉX.localhost",
            "x.localhost",
            ".localhost",
        ] {
            check(wrong, Claim::Nothing);
        }
        for foreign in [
            "localhost",
            "localhost:9000",
            "localhost.",
            "127.0.0.1:9000",
            "[::1]:9000",
            "8080-HEX.localhost.evil.example",
            "8080-HEX.evil-localhost",
            "8080-HEXlocalhost",
            "8080-HEX",
            "",
        ] {
            check(foreign, Claim::Foreign);
        }
    }

    #[test]
    fn the_name_in_the_request_line_counts_and_two_hosts_are_no_preview() {
        let domain: Domain = "Preview.Example".parse().expect("a domain");
        let check = |uri: &str, hosts: &[&str], want: Claim| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let request = request.body(()).expect("a request");
            assert_eq!(domain.claim(&request), want, "{uri} {hosts:?}");
        };
        let (id, name) = (HEX.parse().expect("an id"), format!("1-{HEX}.preview.example"));
        assert_eq!(domain.host(&id, 1), name);
        let (named, absolute) = (Claim::Named(id, 1), format!("http://{name}/x"));
        check("/", &[&name], named);
        check(&absolute, &["api.example"], named);
        check("http://api.example/", &[&name], Claim::Foreign);
        check("/", &["api.example", &name], Claim::Nothing);
        check("/", &["api.example", "api.example"], Claim::Foreign);
        check("/", &[], Claim::Foreign);
    }

    #[test]
    fn domains_are_names() {
        for good in ["localhost", "preview.example.com", "a-b.c1"] {
            assert!(good.parse::<Domain>().is_ok(), "{good}");
        }
        for wrong in ["", ".", "a.", ".a", "a..b", "-a", "a_b", "1.2.3.4", "[::1]", "a:1", "*.a"] {
            assert!(wrong.parse::<Domain>().is_err(), "{wrong}");
        }
    }
}
