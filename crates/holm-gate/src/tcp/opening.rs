//! What a client says first, read only where a rule by name needs it.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{hello, request};
use crate::policy::HostName;

/// Why a request of HTTP/0.9 is refused.
const HTTP09: &str = "the HTTP request names a host and no version";

/// How long a first line that may become HTTP is waited for before it is passed on in parts, for
/// the sake of protocols that send a line without an end and wait.
const PAUSE: Duration = Duration::from_millis(300);
/// Bytes that are read in one go.
const PIECE: usize = 4 * 1024;

/// What a client said first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opened {
    /// TLS, with the name that it asks for.
    Tls(Option<HostName>),
    /// HTTP/1 without TLS.
    Http,
    /// Something that says no name.
    Other,
    /// The beginning of a line that says no name so far.
    Unsure,
    /// Something that is refused.
    Wrong(&'static str),
}

/// Reads it. May be dropped while it waits and asked again.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// All that has been read; to be sent on.
    pub(super) bytes: Vec<u8>,
    has_ended: bool,
}

impl Opening {
    /// Waits for the first byte as long as it takes, for the rest within `limit`.
    pub(super) async fn read(&mut self, near: &TcpStream, limit: Duration) -> io::Result<Opened> {
        if self.bytes.is_empty() && !self.has_ended {
            self.more(near).await?;
        }
        let late = tokio::time::sleep(limit);
        tokio::pin!(late);
        loop {
            let found = self.look();
            let is_line = match found {
                Ok(opened) => return Ok(opened),
                Err(is_line) => is_line,
            };
            let pause =
                async { if is_line { tokio::time::sleep(PAUSE).await } else { pending().await } };
            tokio::select! {
                more = self.more(near) => more?,
                () = pause => return Ok(Opened::Unsure),
                () = &mut late => return Ok(Opened::Wrong("the client did not finish its opening")),
            }
        }
    }

    /// Reads on after [`Opened::Unsure`] until the line tells what it is.
    pub(super) async fn read_line_on(&mut self, near: &TcpStream) -> io::Result<Opened> {
        self.more(near).await?;
        Ok(match request::read(&self.bytes, self.has_ended) {
            _ if self.bytes.len() >= request::MOST => Opened::Wrong("the first line is too long"),
            request::Line::Other => Opened::Other,
            request::Line::Http09 => Opened::Wrong(HTTP09),
            request::Line::Part => Opened::Unsure,
            _ => Opened::Wrong("the HTTP request came in pieces"),
        })
    }

    /// The host that a request of plain HTTP names, once its head is there.
    pub(super) async fn host(
        &mut self,
        near: &TcpStream,
        limit: Duration,
    ) -> io::Result<Option<HostName>> {
        let head = async {
            while !request::has_head(&self.bytes)
                && self.bytes.len() < hello::MOST
                && !self.has_ended
            {
                self.more(near).await?;
            }
            Ok::<(), io::Error>(())
        };
        timeout(limit, head).await??;
        Ok(request::host(&self.bytes))
    }

    /// What it is; else whether it may be a line of HTTP.
    fn look(&self) -> Result<Opened, bool> {
        if hello::looks_like_one(&self.bytes) {
            return match hello::read(&self.bytes) {
                hello::Hello::Whole(name) => Ok(Opened::Tls(name)),
                hello::Hello::Broken(reason) => Ok(Opened::Wrong(reason)),
                hello::Hello::Part if self.has_ended => {
                    Ok(Opened::Wrong("the client did not finish its opening"))
                }
                hello::Hello::Part => Err(false),
            };
        }
        match request::read(&self.bytes, self.has_ended) {
            request::Line::Http => Ok(Opened::Http),
            request::Line::Http2 => {
                Ok(Opened::Wrong("plain HTTP/2 cannot be checked where a rule by name decides"))
            }
            request::Line::Http09 => Ok(Opened::Wrong(HTTP09)),
            request::Line::Other => Ok(Opened::Other),
            request::Line::Part if self.bytes.len() >= request::MOST => {
                Ok(Opened::Wrong("the first line is too long"))
            }
            request::Line::Part => Err(true),
        }
    }

    async fn more(&mut self, near: &TcpStream) -> io::Result<()> {
        loop {
            near.readable().await?;
            let before = self.bytes.len();
            self.bytes.resize(before + PIECE, 0);
            let read = near.try_read(self.bytes.get_mut(before..).unwrap_or_default());
            self.bytes.truncate(before + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
