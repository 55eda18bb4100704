//! Bodies of requests that come part by part.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Parts that wait to be sent at most.
const AHEAD: usize = 4;

#[derive(Debug)]
enum Part {
    Bytes(Bytes),
    End,
}

/// What comes.
#[derive(Debug)]
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
    /// Hands over a part, and waits until there is room. False when nobody takes parts any more: the
    /// answer is there.
    pub async fn send(&self, part: Bytes) -> bool {
        self.0.send(Part::Bytes(part)).await.is_ok()
    }

    /// All have come.
    pub async fn end(&self) {
        // Where nobody takes it the answer is there already.
        let _ = self.0.send(Part::End).await;
    }

    /// [`Self::send`], outside of an async runtime.
    #[must_use]
    pub fn send_blocking(&self, part: Bytes) -> bool {
        self.0.blocking_send(Part::Bytes(part)).is_ok()
    }

    /// [`Self::end`], outside of an async runtime.
    pub fn end_blocking(self) {
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
            // Nobody gave it an end, so it must not look as if it had one.
            None => Some(Err(std::io::ErrorKind::BrokenPipe.into())),
        })
    }
}
