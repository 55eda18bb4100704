//! What the settings of a service say about previews.

use std::net::SocketAddr;
use std::time::Duration;

use holm_client::Url;
use holm_client::acme::Authority;
use holm_gateway::preview::Domain;
use holm_gateway::preview::site::Base;

use super::layers::{Layers, wrong};
use super::{limits, remote, table};
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::service::AcmeSettings;

/// Where previews are, and for how long visitors may look.
#[derive(Debug)]
pub struct PreviewSettings {
    /// The domain below which they are.
    pub domain: Domain,
    /// A listener of their own.
    pub listen: Option<SocketAddr>,
    /// Where they are to visitors, where something is in front.
    pub public: Option<Base>,
    /// Who gives their certificate, if anybody does.
    pub acme: Option<AcmeSettings>,
    /// How long a link waits to be opened.
    pub link_life: Duration,
    /// How long a visitor may look.
    pub access_life: Duration,
}

pub(super) fn previews(
    layers: &Layers<'_>,
    environment: &Environment,
    has_certificate: bool,
) -> Result<PreviewSettings, Failure> {
    let (domain_from, domain) = layers.text(&table::PREVIEW_DOMAIN)?;
    let (listen_from, listen) = layers.text(&table::PREVIEW_LISTEN)?;
    let (public_from, public) = layers.text(&table::PREVIEW_PUBLIC_URL)?;
    let what = "an address and a port, such as 127.0.0.1:9001";
    let listen = match listen.as_str() {
        "" => None,
        text => Some(
            text.parse().map_err(|_| wrong(&table::PREVIEW_LISTEN, &listen_from, what, text))?,
        ),
    };
    let what = "a URL without a path, such as https://preview.example.com";
    let not_url = || wrong(&table::PREVIEW_PUBLIC_URL, &public_from, what, &public);
    let public = match public.as_str() {
        "" => None,
        text => Some(public_url(text).ok_or_else(not_url)?),
    };
    let (domain, public) = match (domain.as_str(), public) {
        ("", Some((host, base))) => (host, Some(base)),
        ("", None) => (Domain::default(), None),
        (text, public) => {
            let domain: Domain = text.parse().map_err(|()| {
                let what = "a domain, such as preview.example.com";
                wrong(&table::PREVIEW_DOMAIN, &domain_from, what, text)
            })?;
            if public.as_ref().is_some_and(|(host, _)| *host != domain) {
                let (one, other) = (table::PREVIEW_PUBLIC_URL.key, table::PREVIEW_DOMAIN.key);
                return Err(Failure::usage(format!("{one} and {other} name different domains"))
                    .hint("leave one of them out"));
            }
            (domain, public.map(|(_, base)| base))
        }
    };
    let acme = acme(layers, environment, &domain)?;
    if acme.is_some() && listen.is_none() && !has_certificate {
        let (acme, own) = (table::ACME_DIRECTORY.key, table::TLS_CERTIFICATE.key);
        return Err(Failure::usage(format!(
            "{acme} is for previews alone, and the API at the same address has no certificate"
        ))
        .hint(format!("set {own} as well, or {}", table::PREVIEW_LISTEN.key)));
    }
    Ok(PreviewSettings {
        domain,
        acme,
        listen,
        public,
        link_life: limits::duration(layers, &table::PREVIEW_LINK_LIFE)?,
        access_life: limits::duration(layers, &table::PREVIEW_ACCESS_LIFE)?,
    })
}

fn acme(
    layers: &Layers<'_>,
    environment: &Environment,
    domain: &Domain,
) -> Result<Option<AcmeSettings>, Failure> {
    let (from, directory) = layers.text(&table::ACME_DIRECTORY)?;
    let (_, contact) = layers.text(&table::ACME_CONTACT)?;
    let (hook_from, hook) = layers.text(&table::ACME_HOOK)?;
    if directory.is_empty() {
        return Ok(None);
    }
    let url = Url::parse(&directory).ok().filter(Authority::may_be_at);
    let url = url.ok_or_else(|| {
        let what = "the URL of a directory, such as https://acme.example.com/directory";
        wrong(&table::ACME_DIRECTORY, &from, what, &directory)
    })?;
    if !domain.to_string().contains('.') {
        let key = table::PREVIEW_DOMAIN.key;
        return Err(Failure::usage(format!("no authority gives a certificate for `*.{domain}`"))
            .hint(format!("set {key} to a domain of yours, such as preview.example.com")));
    }
    let hook = std::path::PathBuf::from(hook);
    if !hook.is_absolute() {
        let what = "the absolute path of a program";
        return Err(wrong(&table::ACME_HOOK, &hook_from, what, &hook.display().to_string()));
    }
    let contact = match contact.as_str() {
        "" => None,
        text if text.contains(':') => Some(text.to_owned()),
        text => Some(format!("mailto:{text}")),
    };
    let (roots, proxies) = (remote::roots(environment), remote::proxies(environment)?);
    let authority = Authority { directory: url, contact, roots, proxies };
    Ok(Some(AcmeSettings { authority, hook }))
}

/// The domain, scheme and port of a URL that has nothing else.
fn public_url(text: &str) -> Option<(Domain, Base)> {
    Url::parse(text).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    let https = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)),
        None => (rest, None),
    };
    let usual = if https { 443 } else { 80 };
    Some((host.parse().ok()?, Base { https, port: port.filter(|port| *port != usual) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_urls_have_a_scheme_a_domain_and_a_port() {
        let check = |text: &str, want: Option<(&str, bool, Option<u16>)>| {
            let got = public_url(text);
            let got = got.map(|(domain, base)| (domain.to_string(), base.https, base.port));
            let want = want.map(|(domain, https, port)| (domain.to_owned(), https, port));
            assert_eq!(got, want, "{text}");
        };
        check("https://Preview.example.com", Some(("preview.example.com", true, None)));
        check("https://p.example:443/", Some(("p.example", true, None)));
        check("http://p.example:8443", Some(("p.example", false, Some(8443))));
        for wrong in [
            "",
            "p.example",
            "ftp://p.example",
            "https://",
            "https://p.example/x",
            "https://u@p.example",
            "https://1.2.3.4",
            "https://p.example:0",
            "https://p.example:x",
            "https://*.p.example",
            "https://[::1]",
        ] {
            check(wrong, None);
        }
    }
}
