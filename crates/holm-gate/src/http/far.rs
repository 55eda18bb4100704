//! The side of the host: dialled when the first request is there, dialled again where the host has
//! closed it between two requests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use holm_http::Sender;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::check::Site;
use super::refusal::Refusal;

/// The most bytes of a head, and that wait on either side.
pub(super) const BUFFER: usize = 64 * 1024;

/// What carries bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A connection that is on its way.
pub(crate) type Dialling<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

/// The side of the host.
pub(super) struct Far<D> {
    site: Site,
    trust: Arc<ClientConfig>,
    dial: D,
    /// Until when a connection, with TLS, must be there.
    patience: std::time::Duration,
    open: Option<Sender<Incoming>>,
    /// The work of connections; its end is theirs.
    tasks: JoinSet<()>,
}

impl<D, S> Far<D>
where
    D: Fn() -> Dialling<S>,
    S: Stream,
{
    pub(super) fn new(
        site: Site,
        trust: Arc<ClientConfig>,
        dial: D,
        patience: std::time::Duration,
    ) -> Self {
        Self { site, trust, dial, patience, open: None, tasks: JoinSet::new() }
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Refusal> {
        while self.tasks.try_join_next().is_some() {}
        let mut request = request;
        if let Some(mut open) = self.open.take()
            && open.ready().await.is_ok()
        {
            match open.try_send_request(request).await {
                Ok(response) => {
                    self.open = Some(open);
                    return Ok(response);
                }
                // It was closed before anything of the request was sent.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(no_answer(&self.site, &error.into_error())),
                },
            }
        }
        let mut open = self.connect().await?;
        let sent = open.send_request(request).await;
        self.open = Some(open);
        sent.map_err(|error| no_answer(&self.site, &error))
    }

    async fn connect(&mut self) -> Result<Sender<Incoming>, Refusal> {
        let until = Instant::now() + self.patience;
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let dialled = timeout_at(until, (self.dial)()).await.unwrap_or_else(|_| Err(late()));
        let stream = dialled.map_err(|error| no_connection(&self.site, &error))?;
        if !self.site.tls {
            return self.speak(stream).await;
        }
        let host = self.site.host.to_string();
        let name = ServerName::try_from(host).map_err(|_| Refusal::bad("not a host"))?;
        let connector = TlsConnector::from(Arc::clone(&self.trust));
        let secured = timeout_at(until, connector.connect(name, stream)).await;
        let secured = secured.unwrap_or_else(|_| Err(late()));
        let stream = secured.map_err(|error| no_connection(&self.site, &error))?;
        self.speak(stream).await
    }

    async fn speak(&mut self, stream: impl Stream) -> Result<Sender<Incoming>, Refusal> {
        let mut builder = http1::Builder::new();
        builder.preserve_header_case(true).max_buf_size(BUFFER);
        let made = holm_http::handshake(&builder, stream, BUFFER).await;
        let (open, work) = made.map_err(|error| no_answer(&self.site, &error))?;
        self.tasks.spawn(async move {
            // How it ended is known to the request that it ended.
            let _ended = work.with_upgrades().await;
        });
        Ok(open)
    }
}

fn no_connection(site: &Site, error: &io::Error) -> Refusal {
    let text = format!("cannot connect to {}: {error}", site.host);
    Refusal::new(StatusCode::BAD_GATEWAY, text)
}

fn no_answer(site: &Site, error: &hyper::Error) -> Refusal {
    let text = format!("{} gave no answer: {error}", site.host);
    Refusal::new(StatusCode::BAD_GATEWAY, text)
}
