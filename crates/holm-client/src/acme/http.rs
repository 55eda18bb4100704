//! The library's requests by our own client: one for each origin that an authority names, with the same
//! proxies, roots and bounds as everywhere else. Redirects are refusals, as the protocol has none.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Response;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tokio::time::timeout;

use crate::client::{Client, Options, Repeat, Request};
use crate::proxy::Proxies;
use crate::tls::Roots;
use crate::url::Url;

/// Bytes of an answer at most: a chain of certificates, or a problem.
const ANSWER: usize = 1 << 20;
const SILENCE: Duration = Duration::from_secs(30);
/// A whole request.
const TIME: Duration = Duration::from_secs(60);
/// Origins of one authority.
const ORIGINS: usize = 8;

/// Requests to an authority.
#[derive(Debug, Clone)]
pub struct Http {
    roots: Roots,
    proxies: Proxies,
    clients: Arc<Mutex<HashMap<String, Client>>>,
}

impl Http {
    pub fn new(roots: Roots, proxies: Proxies) -> Self {
        Self { roots, proxies, clients: Arc::default() }
    }

    fn client(&self, url: &Url) -> Result<Client, Error> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&url.origin()) {
            return Ok(client.clone());
        }
        if clients.len() >= ORIGINS {
            return Err(Error::Str("the authority names too many hosts"));
        }
        let mut options = Options::new(url.clone().without_path());
        options.roots = self.roots.clone();
        options.proxies = self.proxies.clone();
        let client = Client::new(options).map_err(|error| other(Box::new(error)))?;
        clients.insert(url.origin(), client.clone());
        Ok(client)
    }

    async fn send(
        self,
        request: hyper::Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, Error> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|error| other(Box::new(error)))?;
        if !is_safe(&url) {
            return Err(Error::Str("the authority names an address that is not https"));
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut asked = Request::new(head.method.clone(), path);
        asked.headers = head.headers;
        // What is signed counts once; the library asks again where that is right.
        if head.method == hyper::Method::POST {
            asked.repeat = Repeat::Never;
        }
        let Ok(body) = body.collect().await;
        asked.body = body.to_bytes();
        let answer = async {
            let mut answer = self.client(&url)?.send(asked).await.map_err(of_client)?;
            let body = answer.bytes(ANSWER, SILENCE).await.map_err(of_client)?;
            let mut response = Response::new(Full::new(body));
            *response.status_mut() = hyper::StatusCode::from_u16(answer.status)
                .map_err(|error| other(Box::new(error)))?;
            *response.headers_mut() = answer.headers;
            Ok(BytesResponse::from(response))
        };
        timeout(TIME, answer).await.unwrap_or(Err(Error::Timeout(None)))
    }
}

/// By https, or to this machine itself.
pub fn is_safe(url: &Url) -> bool {
    url.is_tls() || url.is_loopback()
}

fn of_client(error: crate::error::Error) -> Error {
    other(error.message.into())
}

fn other(error: Box<dyn StdError + Send + Sync>) -> Error {
    Error::Other(error)
}

impl HttpClient for Http {
    fn request(
        &self,
        request: hyper::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(self.clone().send(request))
    }
}
