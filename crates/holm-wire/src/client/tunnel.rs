//! A raw connection to a port inside.

use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;

use super::ClientError;
use super::files::failure;
use super::pool::{self, GuestClient};
use crate::paths;

/// Longest wait for the guest, which itself gives each of two addresses 5 seconds.
const BEGIN: Duration = Duration::from_secs(15);

/// Bytes to and from a program inside. What comes may be anything.
pub type Tunnel = TokioIo<Upgraded>;

impl GuestClient {
    /// Connects to a port on 127.0.0.1 inside, else on ::1.
    ///
    /// # Errors
    /// `Unavailable` of the guest where nothing listens; see [`ClientError`].
    pub async fn tunnel(&self, port: u16) -> Result<Tunnel, ClientError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}?port={port}", paths::guest::TUNNEL))
            .header(header::HOST, "guest")
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, paths::guest::TUNNEL_PROTOCOL)
            .body(pool::full(Bytes::new()))
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let began = async {
            let (response, mut connection) = self.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let failure = failure(response).await;
                if matches!(failure, ClientError::Guest(_)) {
                    connection.release();
                }
                return Err(failure);
            }
            Ok(hyper::upgrade::on(response).await?)
        };
        Ok(TokioIo::new(pool::within(BEGIN, began).await?))
    }
}
