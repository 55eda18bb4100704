//! Requests to one service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_http::Parts;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{
    AUTHORIZATION, HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT,
};
use hyper::{HeaderMap, Method, Uri};
use tokio::time::{sleep, timeout};

use crate::connect::{Connector, Reach, Stream};
use crate::error::{Error, ErrorKind};
use crate::key::ApiKey;
use crate::pool::{Body, Connection, Pool};
use crate::proxy::Proxies;
use crate::response::Response;
use crate::retry;
use crate::tls::{NoRoots, Roots};
use crate::url::Url;

/// What a client is made of.
#[derive(Debug, Clone)]
pub struct Options {
    /// The service.
    pub url: Url,
    /// The key that goes along with every request to it.
    pub key: Option<ApiKey>,
    /// Whom to trust.
    pub roots: Roots,
    /// Proxies to go through.
    pub proxies: Proxies,
    /// Which addresses may be connected to.
    pub reach: Reach,
    /// Bound of a connection being made.
    pub connect_within: Duration,
}

impl Options {
    /// For a service without a key, reached directly; 10 s for a connection.
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            key: None,
            roots: Roots::default(),
            proxies: Proxies::default(),
            reach: Reach::default(),
            connect_within: Duration::from_secs(10),
        }
    }
}

/// When a request may be sent once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Never.
    Never,
    /// Where nothing of it was sent, or the service says that it did not take it and when to come
    /// again.
    Untaken,
    /// Also where the answer was lost: doing it twice is doing it once.
    Always,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Path and query below the service's URL, beginning with a slash.
    pub path: String,
    /// Headers, besides those that the client adds.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When it may be sent once more.
    pub repeat: Repeat,
    /// Bound of the wait for the answer's head; none for calls that may be long.
    pub head_within: Option<Duration>,
}

impl Request {
    /// A request without a body; half a minute for the head.
    #[must_use]
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let safe = matches!(method, Method::GET | Method::HEAD | Method::DELETE | Method::PUT);
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat: if safe { Repeat::Always } else { Repeat::Untaken },
            head_within: Some(Duration::from_secs(30)),
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// A client of one service. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    connector: Connector,
    key: Option<ApiKey>,
    pool: Arc<Pool>,
    origin: Arc<str>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Client").field(&self.0.origin).finish()
    }
}

/// How an attempt failed.
enum Failed {
    /// Nothing was sent; `true` where a waiting connection turned out to be closed.
    Untaken(Error, bool),
    Perhaps(Error),
}

impl Client {
    /// A client. Makes no connection yet.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn new(options: Options) -> Result<Self, NoRoots> {
        let Options { url, key, roots, proxies, reach, connect_within } = options;
        let tls = if url.is_tls() { Some(roots.config()?) } else { None };
        let proxy = proxies.of(&url).cloned();
        let origin = Arc::from(url.origin());
        let connector = Connector { url, proxy, tls, reach, within: connect_within };
        Ok(Self(Arc::new(Inner { connector, key, pool: Arc::default(), origin })))
    }

    /// The service.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0.connector.url
    }

    /// True where a key goes along.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.0.key.is_some()
    }

    /// Sends a request and waits for the head of its answer. An answer of any status is an answer;
    /// redirects are not followed. Dropping the future closes the connection.
    ///
    /// # Errors
    /// When there is none.
    pub async fn send(&self, request: Request) -> Result<Response, Error> {
        let mut attempt = 1;
        loop {
            let wait = match self.attempt(&request).await {
                Ok(response) => match self.again_after(&request, &response, attempt) {
                    Some(wait) => wait,
                    None => return Ok(response),
                },
                Err(Failed::Untaken(_, true)) => continue,
                Err(Failed::Untaken(error, false)) => {
                    let may =
                        error.kind == ErrorKind::Unreachable && request.repeat != Repeat::Never;
                    if !may || attempt >= retry::ATTEMPTS {
                        return Err(error);
                    }
                    retry::pause(attempt + 1)
                }
                Err(Failed::Perhaps(error)) => {
                    if request.repeat != Repeat::Always || attempt >= retry::ATTEMPTS {
                        return Err(error);
                    }
                    retry::pause(attempt + 1)
                }
            };
            attempt += 1;
            tracing::debug!(origin = &*self.0.origin, attempt, ?wait, "once more");
            sleep(wait).await;
        }
    }

    /// How long to wait where the service says that it did not take the request.
    fn again_after(
        &self,
        request: &Request,
        response: &Response,
        attempt: u32,
    ) -> Option<Duration> {
        if !matches!(response.status, 429 | 503)
            || request.repeat == Repeat::Never
            || attempt >= retry::ATTEMPTS
        {
            return None;
        }
        match retry::after(&response.headers) {
            Some(wait) => (wait <= retry::LONGEST).then(|| wait.max(retry::pause(2))),
            // Without a word about when, it is not sure that it was not taken.
            None => (request.repeat == Repeat::Always).then(|| retry::pause(attempt + 1)),
        }
    }

    /// Sends a request whose body comes part by part, once: nobody has the parts a second time. Where
    /// the service answers before all have come, the answer is given.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send_parts(&self, request: Request, parts: Parts) -> Result<Response, Error> {
        let sent = self.attempt_with(&request, parts.boxed_unsync()).await;
        sent.map_err(|(Failed::Untaken(error, _) | Failed::Perhaps(error))| error)
    }

    async fn attempt(&self, request: &Request) -> Result<Response, Failed> {
        let body = Full::new(request.body.clone()).map_err(|never| match never {});
        self.attempt_with(request, body.boxed_unsync()).await
    }

    async fn attempt_with(&self, request: &Request, body: Body) -> Result<Response, Failed> {
        let untaken = |error| Failed::Untaken(error, false);
        let mut connection = match self.0.pool.take().await {
            Some(connection) => connection,
            None => {
                let stream = self.0.connector.connect().await.map_err(untaken)?;
                Connection::open(stream).await.map_err(untaken)?
            }
        };
        let message = self.message(request, body).map_err(untaken)?;
        let sending = connection.sender.try_send_request(message);
        let sent = match request.head_within {
            None => sending.await,
            Some(time) => timeout(time, sending).await.map_err(|_| {
                let text = format!("{} did not answer within {} s", self.0.origin, time.as_secs());
                Failed::Perhaps(Error::new(ErrorKind::Silent, text))
            })?,
        };
        match sent {
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                Ok(Response {
                    status: head.status.as_u16(),
                    headers: head.headers,
                    body,
                    connection: Some(connection),
                    pool: Arc::clone(&self.0.pool),
                    origin: Arc::clone(&self.0.origin),
                })
            }
            Err(mut error) => {
                let untaken = error.take_message().is_some();
                let error = error.into_error();
                tracing::debug!(%error, untaken, "a request failed");
                let origin = &self.0.origin;
                if untaken {
                    let text = format!("{origin} closed the connection");
                    let error = Error::new(ErrorKind::Unreachable, text);
                    return Err(Failed::Untaken(error, connection.used));
                }
                let (kind, text) = if error.is_parse() {
                    (ErrorKind::Protocol, format!("what {origin} answers is not HTTP"))
                } else {
                    (ErrorKind::Broken, format!("{origin} closed the connection without an answer"))
                };
                Err(Failed::Perhaps(Error::new(kind, text)))
            }
        }
    }

    /// A connection that nothing else uses.
    pub(crate) async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        self.0.connector.connect().await
    }

    pub(crate) fn message(
        &self,
        request: &Request,
        body: Body,
    ) -> Result<hyper::Request<Body>, Error> {
        let Inner { connector, key, .. } = &*self.0;
        let wrong = || Error::new(ErrorKind::Protocol, "the request cannot be written as HTTP");
        let path = connector.url.path(&request.path);
        let uri = if connector.in_absolute_form() {
            format!("http://{}{path}", connector.url.authority(true))
        } else {
            path
        };
        let mut message = hyper::Request::new(body);
        *message.method_mut() = request.method.clone();
        *message.uri_mut() = Uri::try_from(uri).map_err(|_| wrong())?;
        let headers = message.headers_mut();
        headers.clone_from(&request.headers);
        let host = HeaderValue::try_from(connector.url.authority(true)).map_err(|_| wrong())?;
        headers.insert(HOST, host);
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("holm/", env!("CARGO_PKG_VERSION"))));
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, key.header());
        }
        if let Some(proxy) = &connector.proxy
            && connector.in_absolute_form()
            && let Some(credential) = &proxy.credential
        {
            headers.insert(PROXY_AUTHORIZATION, credential.clone());
        }
        Ok(message)
    }
}
