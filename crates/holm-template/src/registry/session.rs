//! Requests to one repository. A credential goes to the image's own registry and to where that says that
//! tokens are, never to a mirror or along a redirect; and from a registry elsewhere nothing leads to this
//! machine or to plain HTTP.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use holm_client::{Client, Method, Options, Reach, Request, Response, Url};
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use serde::Deserialize;

use super::challenge::{Challenge, encode};
use super::{Access, Reference};
use crate::error::{Result, TemplateError, TemplateErrorKind};

/// How long an answer may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(60);
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// Longest answer with a token.
const MAX_TOKEN: usize = 256 << 10;

/// A repository at one host.
pub(super) struct Session<'a> {
    access: &'a Access,
    /// Whether the login is for this host.
    may_log_in: bool,
    registry: Url,
    repository: String,
    authorization: RefCell<Option<HeaderValue>>,
    /// One for each host, with its connections.
    clients: RefCell<HashMap<String, Client>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

impl<'a> Session<'a> {
    /// The repository of an image at a host, its own or a mirror.
    pub(super) fn new(access: &'a Access, host: &str, image: &Reference) -> Result<Self> {
        let wrong = |error: holm_client::UrlError| {
            let text = format!("the registry `{host}` {error}");
            TemplateError::new(TemplateErrorKind::BadName, text)
        };
        let secure = Url::parse(&format!("https://{host}")).map_err(wrong)?;
        // On this machine nobody listens on the way.
        let plain = access.insecure || secure.is_loopback();
        let registry =
            if plain { Url::parse(&format!("http://{host}")).map_err(wrong)? } else { secure };
        Ok(Self {
            access,
            may_log_in: host == image.host,
            registry,
            repository: image.repository.clone(),
            authorization: RefCell::new(None),
            clients: RefCell::new(HashMap::new()),
        })
    }

    /// `manifests/TAG`, `blobs/DIGEST`: an answer of success.
    pub(super) async fn get(&self, what: &str, headers: &HeaderMap) -> Result<Response> {
        let path = format!("/v2/{}/{what}", self.repository);
        let mut response = self.ask(&self.registry, &path, headers, true).await?;
        if response.status == 401 {
            let challenge = response.header(&WWW_AUTHENTICATE).and_then(Challenge::parse);
            let challenge =
                challenge.ok_or_else(|| self.says("wants a login of an unknown kind"))?;
            // A token may have been one that has run out.
            *self.authorization.borrow_mut() = Some(self.authorize(challenge).await?);
            response = self.ask(&self.registry, &path, headers, true).await?;
        }
        for _ in 0..MAX_REDIRECTS {
            if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
                return self.judge(response, what);
            }
            let to = response.header(&LOCATION).unwrap_or_default().to_owned();
            let url = if to.starts_with('/') && !to.starts_with("//") {
                Url::parse(&format!("{}{to}", self.origin()))
            } else {
                Url::parse(&to)
            };
            let url = url.map_err(|_| self.says("redirects to what is not an address"))?;
            self.permit(&url)?;
            let path = url.own_path().to_owned();
            response = self.ask(&url.without_path(), &path, headers, false).await?;
        }
        Err(self.says("redirects without end"))
    }

    fn judge(&self, response: Response, what: &str) -> Result<Response> {
        match response.status {
            200 | 206 => Ok(response),
            404 => Err(self.says(&format!("has no {what} of {}", self.repository))),
            401 | 403 => Err(self.says(&format!(
                "does not let us read {}: {}",
                self.repository,
                self.no_login()
            ))),
            429 => Err(self.says("has had too many requests; try again later")),
            status => Err(self.says(&format!("answers {status} for {what}"))),
        }
    }

    async fn ask(
        &self,
        url: &Url,
        path: &str,
        headers: &HeaderMap,
        ours: bool,
    ) -> Result<Response> {
        let client = self.client(url)?;
        let mut request = Request::new(Method::GET, path);
        request.headers.clone_from(headers);
        if ours && let Some(authorization) = &*self.authorization.borrow() {
            request.headers.insert(AUTHORIZATION, authorization.clone());
        }
        client.send(request).await.map_err(unreachable)
    }

    fn client(&self, url: &Url) -> Result<Client> {
        let key = format!("{}://{}:{}", url.is_tls(), url.host(), url.port());
        if let Some(client) = self.clients.borrow().get(&key) {
            return Ok(client.clone());
        }
        let mut options = Options::new(url.clone());
        options.roots = self.access.roots.clone();
        options.proxies = self.access.proxies.clone();
        options.reach = self.reach_to(url);
        let client = Client::new(options).map_err(|error| self.says(&error.to_string()))?;
        self.clients.borrow_mut().insert(key, client.clone());
        Ok(client)
    }

    /// Addresses that a name may stand for: a registry elsewhere leads to none of this machine, however
    /// it is called.
    fn reach_to(&self, url: &Url) -> Reach {
        let is_led = url.host() != self.registry.host() && !self.registry.is_loopback();
        match &self.access.reach {
            Reach::Any if is_led => Reach::Elsewhere,
            reach => reach.clone(),
        }
    }

    /// Where a registry may lead us.
    fn permit(&self, url: &Url) -> Result<()> {
        let here = self.registry.is_loopback();
        if url.is_loopback() && !here {
            return Err(self.says("leads to this machine"));
        }
        if !url.is_tls() && !here && !self.access.insecure {
            return Err(self.says("leads to an address without TLS"));
        }
        Ok(())
    }

    async fn authorize(&self, challenge: Challenge) -> Result<HeaderValue> {
        let login = self.access.login.as_ref().filter(|_| self.may_log_in);
        let basic = login.map(|login| {
            let pair = format!("{}:{}", login.user, login.password);
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        });
        let header = |text: &str| {
            let mut value = HeaderValue::from_str(text)
                .map_err(|_| self.says("gives a token that cannot be sent"))?;
            value.set_sensitive(true);
            Ok(value)
        };
        let (realm, service, scope) = match (challenge, &basic) {
            (Challenge::Basic, Some(basic)) => return header(basic),
            (Challenge::Basic, None) => {
                return Err(self.says(self.no_login()));
            }
            (Challenge::Bearer { realm, service, scope }, _) => (realm, service, scope),
        };
        let url = Url::parse(&realm).map_err(|_| self.says("names no place for tokens"))?;
        self.permit(&url)?;
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        let mut path = url.own_path().to_owned();
        path.push(if path.contains('?') { '&' } else { '?' });
        path.push_str(&format!("scope={}", encode(&scope)));
        if let Some(service) = service {
            path.push_str(&format!("&service={}", encode(&service)));
        }
        let mut request = Request::new(Method::GET, path);
        if let Some(basic) = &basic {
            request.headers.insert(AUTHORIZATION, header(basic)?);
        }
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let client = self.client(&url.without_path())?;
        let mut response = client.send(request).await.map_err(unreachable)?;
        if response.status != 200 {
            return Err(self.says(&format!(
                "gives no token for {} ({}); give --user and --password-file, or other ones",
                self.repository, response.status
            )));
        }
        let text = response.bytes(MAX_TOKEN, SILENCE).await.map_err(unreachable)?;
        let token: Token = serde_json::from_slice(&text)
            .map_err(|_| self.says("gives a token of no known form"))?;
        let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| self.says("gives no token"))?;
        header(&format!("Bearer {token}"))
    }

    fn no_login(&self) -> &'static str {
        match self.may_log_in {
            true => "wants a login; give --user and --password-file",
            false => "wants a login, and mirrors are given none",
        }
    }

    fn origin(&self) -> String {
        let scheme = if self.registry.is_tls() { "https" } else { "http" };
        let host = self.registry.host();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("{scheme}://{host}:{}", self.registry.port())
    }

    /// An error about this registry.
    pub(super) fn says(&self, what: &str) -> TemplateError {
        let text = format!("the registry {} {what}", self.registry.host());
        TemplateError::new(TemplateErrorKind::Registry, text)
    }
}

/// An error on the way.
pub(super) fn unreachable(error: holm_client::Error) -> TemplateError {
    TemplateError::new(TemplateErrorKind::Registry, error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_elsewhere_leads_to_nothing_of_this_machine() {
        let access = Access::default();
        let check = |host: &str, to: &str, address: &str, want: bool| {
            let image = Reference::parse(&format!("{host}/app")).unwrap();
            let session = Session::new(&access, host, &image).unwrap();
            let reach = session.reach_to(&Url::parse(to).unwrap());
            assert_eq!(reach.admits(address.parse().unwrap()), want, "{host} {to} {address}");
        };
        for address in
            ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "169.254.169.254", "fe80::1"]
        {
            check("registry.example.com", "https://cdn.example.com", address, false);
            check("localhost:5000", "http://other.localhost", address, true);
            check("registry.example.com", "https://registry.example.com/x", address, true);
        }
        check("registry.example.com", "https://cdn.example.com", "192.0.2.7", true);
        check("registry.example.com", "https://cdn.example.com", "::ffff:127.0.0.1", false);
    }
}
