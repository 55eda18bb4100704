//! Connections that begin with a request and go on with another protocol.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Method;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::client::{Client, Repeat, Request};
use crate::error::{Error, ErrorKind};

/// Bytes of an answer's head at most.
const HEAD: usize = 64 << 10;
/// Bytes of a refusal at most.
const REFUSAL: usize = 64 << 10;

/// Bytes in both directions.
pub type Tunnel = TokioIo<hyper::upgrade::Upgraded>;

/// What came of asking for one.
#[derive(Debug)]
pub enum Upgrade {
    /// It is there.
    Open(Tunnel),
    /// The service says no: its status, and what it says.
    Refused(u16, Bytes),
}

impl Client {
    /// Asks to go on with `protocol`, over a connection of its own. Never asks twice.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn upgrade(&self, path: &str, protocol: &'static str) -> Result<Upgrade, Error> {
        let mut request = Request::new(Method::POST, path)
            .with(CONNECTION, HeaderValue::from_static("upgrade"))
            .with(UPGRADE, HeaderValue::from_static(protocol));
        request.repeat = Repeat::Never;
        let within = request.head_within.unwrap_or_default();
        let asking = async {
            let origin = self.url().origin();
            let broken = |_| {
                let text = format!("{origin} closed the connection without an answer");
                Error::new(ErrorKind::Broken, text)
            };
            let stream = self.connect().await?;
            let mut builder = http1::Builder::new();
            builder.max_buf_size(HEAD);
            let made = builder.handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = made.map_err(broken)?;
            tokio::spawn(async move {
                // Whoever waits for the answer sees an error too. It ends with its sender.
                let _ = connection.with_upgrades().await;
            });
            let nothing = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let answer =
                sender.send_request(self.message(&request, nothing)?).await.map_err(broken)?;
            let status = answer.status();
            if status == hyper::StatusCode::SWITCHING_PROTOCOLS {
                let upgraded = hyper::upgrade::on(answer).await.map_err(broken)?;
                return Ok(Upgrade::Open(TokioIo::new(upgraded)));
            }
            let body = http_body_util::Limited::new(answer.into_body(), REFUSAL).collect().await;
            let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            Ok(Upgrade::Refused(status.as_u16(), body))
        };
        timeout(within, asking).await.unwrap_or_else(|_| {
            let text =
                format!("{} did not answer within {} s", self.url().origin(), within.as_secs());
            Err(Error::new(ErrorKind::Silent, text))
        })
    }
}
