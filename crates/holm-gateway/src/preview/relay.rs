//! Bodies on their way through: part by part, as fast as the slower side, until one side ends or
//! nobody may go on.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{Ended, Preview};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep};

use super::pool::Lent;
use super::site::{Place, Stage};
use super::{request, response, token};
use crate::http::access::Access;

/// How often the wall clock is looked at, at least.
const CLOCK: Duration = Duration::from_secs(60);

/// When bytes last came, of several streams together.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<Instant>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Activity {
    /// Some come now.
    pub fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Resolves when none have come for so long.
    pub async fn silent_for(&self, time: Duration) {
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= time {
                return;
            }
            tokio::time::sleep_until(last + time).await;
        }
    }
}

/// Why what is open by a preview has to end.
#[derive(Debug, Clone, Copy)]
pub enum Why {
    /// Nobody may go on.
    Over(Option<Ended>),
    /// What let this visitor in has ended.
    Expired,
    /// The service goes down.
    GoingDown,
}

/// Resolves when it has to.
pub type End = Pin<Box<dyn Future<Output = Why> + Send>>;

/// Resolves when nobody may go on, what let the visitor in has ended (`until`), or the service goes
/// down as far as `last`.
pub fn end(
    preview: Preview,
    until: Option<Timestamp>,
    mut stage: watch::Receiver<Stage>,
    last: Stage,
) -> End {
    Box::pin(async move {
        tokio::select! {
            biased;
            ended = preview.over() => Why::Over(ended),
            () = expired(until) => Why::Expired,
            // An error means that the server has gone.
            _ = stage.wait_for(|stage| *stage >= last) => Why::GoingDown,
        }
    })
}

/// Resolves at that time by the wall clock, as soon as that is noticed; never where there is none.
async fn expired(until: Option<Timestamp>) {
    let Some(until) = until else { return std::future::pending().await };
    loop {
        let left = until.duration_since(Timestamp::now());
        if !left.is_positive() {
            return;
        }
        // Tokens end by the wall clock, which may be set meanwhile.
        let left = Duration::try_from(left).unwrap_or_default();
        sleep(left.min(CLOCK)).await;
    }
}

/// What a visitor sends.
pub struct Upload {
    body: Incoming,
    preview: Preview,
    activity: Activity,
    /// Knows what is holm's.
    access: Access,
    _on_its_way: Arc<()>,
}

impl Upload {
    /// The body of a request. `on_its_way` lives as long.
    #[must_use]
    pub fn new(
        body: Incoming,
        preview: Preview,
        activity: Activity,
        access: Access,
        on_its_way: Arc<()>,
    ) -> Self {
        Self { body, preview, activity, access, _on_its_way: on_its_way }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.activity.note();
        self.preview.traffic();
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            request::trailers_for_program(trailers, |text| {
                token::holds_token(text) || self.access.is_credential(text)
            });
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What a program answers. Dropping it before its end closes the connection to the program.
pub struct Answer {
    body: Incoming,
    preview: Preview,
    end: End,
    idle: Duration,
    /// Only where the program is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    lent: Option<Lent>,
    _place: Place,
}

impl Answer {
    /// The body of an answer, from a connection that is free again after it.
    pub fn new(
        body: Incoming,
        preview: Preview,
        end: End,
        idle: Duration,
        lent: Option<Lent>,
        place: Place,
    ) -> Self {
        let mut this = Self { body, preview, end, idle, timer: None, lent, _place: place };
        if this.body.is_end_stream() {
            this.give_back();
        }
        this
    }

    fn give_back(&mut self) {
        if let Some(lent) = self.lent.take() {
            lent.give_back(&self.preview);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::Error::other("the preview has ended"))));
        }
        let Poll::Ready(mut frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let idle = self.idle;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(idle)));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        };
        let next = Instant::now() + self.idle;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(next);
        }
        self.preview.traffic();
        if let Some(Ok(frame)) = &mut frame
            && let Some(trailers) = frame.trailers_mut()
        {
            response::trailers_for_visitor(trailers);
        }
        if frame.is_none() || self.body.is_end_stream() {
            self.give_back();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
