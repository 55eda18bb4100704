//! A credential bound to hosts: what stands for it inside, and where it may be put in.

use hyper::header::{self, HeaderName};

use super::secret::Secret;
use crate::policy::{HostName, Rule};

/// Most credentials of one sandbox.
pub const MAX_INJECTIONS: usize = 64;
/// Most hosts of one credential.
pub const MAX_HOSTS: usize = 16;
/// Most headers of one credential.
pub const MAX_HEADERS: usize = 8;
/// Bytes of a placeholder: one that is shorter could stand in a header by chance.
pub const PLACEHOLDER: std::ops::RangeInclusive<usize> = 8..=128;
/// Most bytes of a credential.
pub const MAX_SECRET: usize = 8 * 1024;

/// The ports of a host that is bound without any. A connection to another one (SSH, mail) is none of
/// HTTP, and waiting for what its client says would only delay it.
const WEB: [u16; 2] = [443, 80];

/// Where a placeholder is looked for if nothing else is said.
const USUAL: [HeaderName; 2] = [header::AUTHORIZATION, HeaderName::from_static("x-api-key")];

/// What says where a message goes or where it ends. None of it is ever written by a credential.
const NEVER: [HeaderName; 16] = [
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::RANGE,
    header::SEC_WEBSOCKET_EXTENSIONS,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A credential bound to hosts.
#[derive(Debug, Clone)]
pub struct Injection {
    hosts: Vec<Rule>,
    placeholder: String,
    secret: Secret,
    headers: Vec<HeaderName>,
    allow_plaintext: bool,
}

/// What cannot be injected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// No hosts, or too many.
    #[error("a secret is bound to 1 to {MAX_HOSTS} hosts")]
    Hosts,
    /// An address, which no certificate proves.
    #[error(
        "a secret is bound to names such as `api.example.com` or `*.example.com`, not to `{0}`"
    )]
    Host(Rule),
    /// A placeholder that is too short, too long, or has odd characters.
    #[error("a placeholder has 8 to 128 of the characters a-z, A-Z, 0-9, `_`, `-` and `.`")]
    Placeholder,
    /// Nothing, too much, or what a header cannot hold. It is not shown.
    #[error("a secret has 1 to {MAX_SECRET} bytes without control characters")]
    Secret,
    /// Too many headers.
    #[error("a secret is put into {MAX_HEADERS} headers at most")]
    Headers,
    /// A header that is none, or that a credential must not write.
    #[error("a secret cannot be put into the header `{0}`")]
    Header(String),
    /// Too many of them.
    #[error("a sandbox has {MAX_INJECTIONS} secrets at most")]
    TooMany,
    /// There is no authority to speak for hosts with.
    #[error("this gate has no authority of its own and opens no TLS")]
    NoAuthority,
}

impl Injection {
    /// Binds a secret to hosts. Without `headers` the usual ones are meant.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(
        hosts: Vec<Rule>,
        placeholder: String,
        secret: Secret,
        headers: &[String],
        allow_plaintext: bool,
    ) -> Result<Self, InjectionError> {
        if !(1..=MAX_HOSTS).contains(&hosts.len()) {
            return Err(InjectionError::Hosts);
        }
        if let Some(rule) = hosts.iter().find(|rule| rule.is_net()) {
            return Err(InjectionError::Host(rule.clone()));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !PLACEHOLDER.contains(&placeholder.len()) || !placeholder.bytes().all(plain) {
            return Err(InjectionError::Placeholder);
        }
        let fits = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        let length = secret.expose().len();
        if length == 0 || length > MAX_SECRET || !secret.expose().iter().all(fits) {
            return Err(InjectionError::Secret);
        }
        if headers.len() > MAX_HEADERS {
            return Err(InjectionError::Headers);
        }
        let header = |text: &String| {
            let wrong = || InjectionError::Header(crate::text::shown(text, 80));
            let name = HeaderName::try_from(text.as_str()).map_err(|_| wrong())?;
            if NEVER.contains(&name) { Err(wrong()) } else { Ok(name) }
        };
        let mut headers: Vec<HeaderName> = headers.iter().map(header).collect::<Result<_, _>>()?;
        if headers.is_empty() {
            headers.extend(USUAL);
        }
        Ok(Self { hosts, placeholder, secret, headers, allow_plaintext })
    }

    /// Whether it is for this host, on this port, by this way.
    pub(crate) fn is_for(&self, host: &HostName, port: u16, tls: bool) -> bool {
        let port = |rule: &Rule| match &rule.ports {
            Some(ports) => ports.contains(&port),
            None => WEB.contains(&port),
        };
        let covers = |rule: &Rule| rule.covers_name(host) && port(rule);
        (tls || self.allow_plaintext) && self.hosts.iter().any(covers)
    }

    pub(super) fn is_in(&self, header: &HeaderName) -> bool {
        self.headers.contains(header)
    }

    pub(super) fn placeholder(&self) -> &[u8] {
        self.placeholder.as_bytes()
    }

    pub(super) fn secret(&self) -> &[u8] {
        self.secret.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(hosts: &[&str], placeholder: &str, secret: &str, headers: &[&str]) -> String {
        let hosts = hosts.iter().map(|text| text.parse().expect("a rule")).collect();
        let headers: Vec<String> = headers.iter().map(|text| (*text).to_owned()).collect();
        let made = Injection::new(hosts, placeholder.into(), Secret::new(secret), &headers, false);
        let text = match &made {
            Ok(injection) => format!("{injection:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(secret.is_empty() || !text.contains(secret), "{text}");
        made.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_cannot_be_injected_is_said() {
        let good = ["api.example", "*.b.example:443"];
        assert_eq!(make(&good, "holm-abcdef", "s3cret", &[]), "");
        assert_eq!(make(&good, "holm-abcdef", "s3cret", &["Authorization", "private-token"]), "");
        assert!(make(&[], "holm-abcdef", "s3cret", &[]).contains("1 to 16 hosts"));
        assert!(make(&["10.0.0.0/8"], "holm-abcdef", "s3cret", &[]).contains("10.0.0.0/8"));
        for wrong in ["", "short", "with space", "new\nline1", &"a".repeat(129)] {
            assert!(make(&good, wrong, "s3cret", &[]).contains("placeholder"), "{wrong}");
        }
        for wrong in ["", "x\r\nHost: evil", "x\0y", "x\u{7f}", &"a".repeat(MAX_SECRET + 1)] {
            assert!(make(&good, "holm-abcdef", wrong, &[]).contains("secret has"), "{wrong}");
        }
        for wrong in ["Host", "content-length", "Transfer-Encoding", "Connection", "a b", ""] {
            let text = make(&good, "holm-abcdef", "s3cret", &["x-ok", wrong]);
            assert!(text.contains(&format!("`{wrong}`")), "{text}");
        }
        assert!(make(&good, "holm-abcdef", "s3cret", &["x"; 9]).contains("8 headers"));
    }

    #[test]
    fn it_is_for_its_hosts_only() {
        let hosts =
            vec!["api.example".parse().expect("one"), "*.b.example:443".parse().expect("one")];
        let made = |plain| {
            let secret = Secret::new("s3cret");
            Injection::new(hosts.clone(), "holm-abcdef".into(), secret, &[], plain).expect("one")
        };
        let check = |host: &str, port: u16, tls: bool, plain: bool, expected: bool| {
            let host: HostName = host.parse().expect("a name");
            assert_eq!(made(plain).is_for(&host, port, tls), expected, "{host} {port} {tls}");
        };
        check("api.example", 443, true, false, true);
        check("API.example", 80, true, false, true);
        check("api.example", 8443, true, false, false);
        check("api.example", 22, true, true, false);
        check("x.api.example", 443, true, false, false);
        check("a.b.example", 443, true, false, true);
        check("a.b.example", 444, true, false, false);
        check("b.example", 443, true, false, false);
        check("api.example", 80, false, false, false);
        check("api.example", 80, false, true, true);
    }
}
