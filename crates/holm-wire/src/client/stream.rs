//! Server streams.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Serialize;

use super::ClientError;
use super::calls::{error_of, post};
use super::pool::{self, ConnectionGuard, GuestClient};
use crate::connect::{self, Decoder, EndOfStream};
use crate::process::{EventResponse, ProcessEvent};

/// Most bytes of one frame.
const MAX_FRAME: usize = 4 << 20;
/// Wait for the head of a stream's response.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);

/// The events of one program, in order. Dropping it stops following, not the program.
#[derive(Debug)]
pub struct EventStream {
    body: Incoming,
    decoder: Decoder,
    ready: VecDeque<ProcessEvent>,
    ended: bool,
    _connection: ConnectionGuard,
}

impl EventStream {
    /// The next event; `None` after the last one. Waits as long as the program is silent.
    ///
    /// # Errors
    /// When the guest reports a failure, breaks the protocol, or goes away before the end.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            let Some(frame) = self.body.frame().await else {
                let error = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                return Err(ClientError::Unreachable(error.into()));
            };
            let Ok(data) = frame?.into_data() else { continue };
            self.decoder.push(&data);
            self.drain()?;
        }
    }

    fn drain(&mut self) -> Result<(), ClientError> {
        let protocol = |error: &dyn std::fmt::Display| ClientError::Protocol(error.to_string());
        while let Some(frame) = self.decoder.next_frame().map_err(|e| protocol(&e))? {
            if frame.end {
                let end: EndOfStream =
                    serde_json::from_slice(&frame.payload).map_err(|e| protocol(&e))?;
                self.ended = true;
                return match end.error {
                    Some(error) => Err(ClientError::Guest(error)),
                    None => Ok(()),
                };
            }
            let message: EventResponse =
                serde_json::from_slice(&frame.payload).map_err(|e| protocol(&e))?;
            self.ready.push_back(message.event);
        }
        Ok(())
    }
}

impl GuestClient {
    pub(super) async fn stream<Q: Serialize + Sync>(
        &self,
        path: &str,
        user: &str,
        request: &Q,
        headers: &[(&str, String)],
    ) -> Result<EventStream, ClientError> {
        let body = serde_json::to_vec(request)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let mut head = post(path, user, connect::STREAM_JSON);
        for (name, value) in headers {
            head = head.header(*name, value);
        }
        let request = head
            .body(pool::full(connect::envelope(0, &body)))
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        let (response, connection) = pool::within(HEAD_DEADLINE, self.send(request)).await?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let read = pool::collect(response.into_body(), 64 << 10);
            return Err(error_of(status, &pool::within(HEAD_DEADLINE, read).await?));
        }
        Ok(EventStream {
            body: response.into_body(),
            decoder: Decoder::new(MAX_FRAME),
            ready: VecDeque::new(),
            ended: false,
            _connection: connection,
        })
    }
}
