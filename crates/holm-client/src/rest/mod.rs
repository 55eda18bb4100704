//! The service's REST, as far as its own command line uses it: requests and answers in JSON, and
//! what a refusal says.

mod admin;
mod port;
mod secret;
mod tree;

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use admin::{Account, AccountChange, Entry, Key, KeyMade, NewAccount, NewKey, Topup};
pub use port::{ExposedPort, Unexposed};
pub use secret::{NewSecret, Secret};
pub use tree::Unpacked;

use crate::client::{Client, Repeat, Request};
use crate::error::{Error, ErrorKind};
use crate::response::Response;

/// Bytes of an answer at most: a full page of a list is below one MiB.
const ANSWER_BYTES: usize = 8 << 20;
const SILENCE: Duration = Duration::from_secs(30);

/// The REST of one service.
#[derive(Debug, Clone)]
pub struct Rest {
    client: Client,
}

/// A request that was not done, as far as one can know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// There is no whole answer.
    Http(Error),
    /// The service says no.
    Refused {
        /// The status.
        status: u16,
        /// The type of the error; empty where the answer is nothing that a service says.
        kind: String,
        /// What happened, to what.
        message: String,
    },
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

impl Rest {
    /// By this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, Failure> {
        self.ask(Request::new(Method::GET, path)).await
    }

    /// A request with a body. It is sent again after a lost answer only where `repeat` says so.
    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        repeat: Repeat,
    ) -> Result<T, Failure> {
        let mut request = Request { repeat, ..Request::new(Method::POST, path) };
        request = request.with(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = Bytes::from(body.to_string());
        self.ask(request).await
    }

    /// A request that changes something to what the body says: twice is as good as once.
    async fn patch<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Failure> {
        let mut request = Request { repeat: Repeat::Always, ..Request::new(Method::PATCH, path) };
        request = request.with(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = Bytes::from(body.to_string());
        self.ask(request).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let answer = self.client.send(request).await.map_err(Failure::Http)?;
        self.read(answer).await
    }

    async fn read<T: DeserializeOwned>(&self, mut answer: Response) -> Result<T, Failure> {
        let body = answer.bytes(ANSWER_BYTES, SILENCE).await.map_err(Failure::Http)?;
        let status = answer.status;
        if !(200..300).contains(&status) {
            return Err(refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| {
            tracing::debug!(%error, "an answer was not understood");
            let origin = self.client.url().origin();
            let text = format!("what {origin} answers is not what a holm service answers");
            Failure::Http(Error::new(ErrorKind::Protocol, text))
        })
    }
}

fn refused(status: u16, body: &[u8]) -> Failure {
    let said = serde_json::from_slice::<ErrorBody>(body).ok().map(|body| body.error);
    let (kind, message) = said.map(|said| (said.kind, said.message)).unwrap_or_default();
    Failure::Refused { status, kind, message }
}
