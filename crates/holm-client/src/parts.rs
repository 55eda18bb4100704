//! Bodies of requests that come part by part.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Parts that wait to be sent at most.
const AHEAD: usize = 4;

enum Part {
    Bytes(Bytes),
    End,
}

/// What comes.
pub struct Parts(mpsc::Receiver<Part>);

/// From where. Dropped before [`Self::end`] it breaks the request off, so that nobody takes the
/// beginning for the whole.
#[derive(Debug, Clone)]
pub struct PartSender(mpsc::Sender<Part>);

/// A body, and from where it comes.
#[must_use]
pub fn parts() -> (PartSender, Parts) {
    let (sender, receiver) = mpsc::channel(AHEAD);
    (PartSender(sender), Parts(receiver))
}

impl PartSender {
    /// Hands over a part, and waits until there is room. Not within an async runtime. False when
    /// nobody takes parts any more: the answer is there.
    #[must_use]
    pub fn send_blocking(&self, part: Bytes) -> bool {
        self.0.blocking_send(Part::Bytes(part)).is_ok()
    }

    /// All have come.
    pub fn end_blocking(self) {
        // Where nobody takes it the answer is there already.
        let _ = self.0.blocking_send(Part::End);
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|part| match part {
            Some(Part::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Part::End) => None,
            None => Some(Err(std::io::ErrorKind::BrokenPipe.into())),
        })
    }
}
