//! What waits for one follower of a stream, bounded.
//!
//! A follower that reads slowly slows the source, as a pipe would: the source stops reading once
//! [`FULL`] bytes wait. One that takes nothing at all for the time of its patience is cut off
//! with `resource_exhausted`, so that it cannot hold a program up for ever.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use holm_wire::connect::{Code, Error};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::server::body::Source;
use crate::server::rpc::end_frame;

/// Bytes that may wait before the source pauses.
pub const FULL: usize = 4 << 20;

/// The source's end.
#[derive(Debug)]
pub struct Queue {
    frames: RefCell<VecDeque<Bytes>>,
    waiting: Cell<usize>,
    ended: Cell<bool>,
    gone: Cell<bool>,
    taken: Cell<Instant>,
    patience: Duration,
    reader: RefCell<Option<Waker>>,
    /// Told when something was taken, or the follower left.
    room: Rc<Notify>,
}

impl Queue {
    /// A queue whose follower may take nothing for `patience`.
    pub fn new(patience: Duration, room: Rc<Notify>) -> Rc<Self> {
        Rc::new(Self {
            frames: RefCell::default(),
            waiting: Cell::new(0),
            ended: Cell::new(false),
            gone: Cell::new(false),
            taken: Cell::new(Instant::now()),
            patience,
            reader: RefCell::default(),
            room,
        })
    }

    fn wake(&self) {
        if let Some(reader) = self.reader.borrow_mut().take() {
            reader.wake();
        }
    }

    /// Adds a frame.
    pub fn push(&self, frame: Bytes) {
        if self.ended.get() || self.gone.get() {
            return;
        }
        if self.waiting.get() == 0 {
            // Patience counts from when there is something to take.
            self.taken.set(Instant::now());
        }
        self.waiting.set(self.waiting.get() + frame.len());
        self.frames.borrow_mut().push_back(frame);
        self.wake();
    }

    /// Ends the stream after what waits.
    pub fn end(&self, error: Option<Error>) {
        self.push(end_frame(error));
        self.ended.set(true);
        self.wake();
    }

    /// True while somebody may still read.
    pub fn lives(&self) -> bool {
        !self.gone.get() && !self.ended.get()
    }

    /// Resolves once its follower has left.
    pub async fn left(&self) {
        loop {
            let told = self.room.notified();
            if self.gone.get() {
                return;
            }
            told.await;
        }
    }

    /// When the source must pause for this follower: until when at most.
    pub fn pause(&self) -> Option<Instant> {
        (self.lives() && self.waiting.get() >= FULL).then(|| self.taken.get() + self.patience)
    }

    /// Cuts the follower off.
    pub fn cut(&self) {
        self.frames.borrow_mut().clear();
        self.waiting.set(0);
        self.end(Some(Error::new(
            Code::ResourceExhausted,
            format!(
                "nothing was read from this stream for {} s while {} MiB waited; the program goes \
                 on",
                self.patience.as_secs(),
                FULL >> 20
            ),
        )));
    }
}

/// Waits until no follower is full; cuts off those that stall.
pub async fn wait_for_room(queues: &RefCell<Vec<Rc<Queue>>>, room: &Notify) {
    loop {
        queues.borrow_mut().retain(|queue| queue.lives());
        let told = room.notified();
        let Some(until) = queues.borrow().iter().filter_map(|queue| queue.pause()).min() else {
            return;
        };
        tokio::select! {
            () = told => {}
            () = tokio::time::sleep_until(until) => {
                for queue in queues.borrow().iter() {
                    if queue.pause().is_some_and(|until| until <= Instant::now()) {
                        queue.cut();
                    }
                }
            }
        }
    }
}

/// The follower's end: the body of its response.
pub struct Follower {
    queue: Rc<Queue>,
    keepalive: (Duration, Bytes),
    silence: Pin<Box<Sleep>>,
}

impl Follower {
    /// A body that sends `frame` after each `interval` of silence.
    pub fn new(queue: Rc<Queue>, interval: Duration, frame: Bytes) -> Self {
        let silence = Box::pin(tokio::time::sleep(interval));
        Self { queue, keepalive: (interval, frame), silence }
    }
}

impl Source for Follower {
    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>> {
        let next = self.queue.frames.borrow_mut().pop_front();
        let frame = if let Some(frame) = next {
            let queue = &self.queue;
            queue.waiting.set(queue.waiting.get() - frame.len());
            queue.taken.set(Instant::now());
            queue.room.notify_waiters();
            frame
        } else if self.queue.ended.get() {
            return Poll::Ready(None);
        } else {
            self.queue.reader.replace(Some(context.waker().clone()));
            std::task::ready!(self.silence.as_mut().poll(context));
            self.keepalive.1.clone()
        };
        let again = Instant::now() + self.keepalive.0;
        self.silence.as_mut().reset(again);
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.queue.gone.set(true);
        self.queue.frames.borrow_mut().clear();
        self.queue.room.notify_waiters();
    }
}
