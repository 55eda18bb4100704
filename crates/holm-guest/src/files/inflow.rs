//! `PUT /holm/v1/upload`: a file that comes over the connection itself. Between the socket and the
//! file there is one buffer and one thread, as every hop more is a wake-up for each part.
//!
//! The content comes in frames (eight bytes of length, big endian, then the bytes); an empty frame
//! ends it. A connection that ends before leaves what was there.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::guest::FileWritten;
use holm_wire::paths::guest::UPLOAD_PROTOCOL;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::http::{Upload, octal, target};
use super::path::show;
use super::read::CHUNK;
use super::write::Partial;
use crate::errors::{Result, internal, invalid};
use crate::server::body::{BODY_IDLE, Reply};
use crate::server::route::{asks_for, switching};
use crate::server::rpc::{self, failure};
use crate::state::Shared;
use crate::sys::raw;

/// Bytes after which a thread does other files' work, too.
const TURN: usize = 8 << 20;
/// A sender that just sent this much is waited for a moment by the thread itself.
const BRISK: usize = 64 << 10;
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 3_000_000 };
/// Time for an answer to be taken: it always has room, unless nobody is there.
const FAREWELL: Duration = Duration::from_secs(10);

/// Begins the file, then agrees to take its content.
pub async fn open(guest: Shared, mut request: Request<Incoming>) -> Response<Reply> {
    let began = async {
        if !asks_for(&request, UPLOAD_PROTOCOL) {
            return Err(invalid(format!(
                "this call needs `Connection: upgrade` and `Upgrade: {UPLOAD_PROTOCOL}`"
            )));
        }
        let (user, path, query) = target(&guest, &request)?;
        let mode = query.bytes("mode").map(|_| octal(&query)).transpose()?;
        let upload = Upload::begin(&guest.files, &user, &path, mode).await?;
        Ok((upload, show(&path)))
    };
    let (upload, path) = match began.await {
        Ok(began) => began,
        Err(error) => return failure(&error),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::task::spawn_local(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let Ok(parts) = upgraded.downcast::<TokioIo<UnixStream>>() else { return };
        // Nobody sends anything before the answer.
        debug_assert!(parts.read_buf.is_empty(), "content came too soon");
        let stream = parts.io.into_inner().into_std();
        let Ok(socket) = stream.map(OwnedFd::from).and_then(raw::watched) else { return };
        let result = take(upload, &socket).await;
        let frame = match result {
            Ok(size) => rpc::message_frame(&FileWritten { path, size }),
            Err(error) => {
                // What the upload had begun is gone before the caller is told.
                guest.files.settled().await;
                rpc::end_frame(Some(error))
            }
        };
        // Who is gone needs no answer.
        let _ = timeout(FAREWELL, crate::io::write_all(&socket, &frame)).await;
    });
    switching(UPLOAD_PROTOCOL)
}

/// Takes the content to its end. Gives its size.
async fn take(mut upload: Upload, socket: &AsyncFd<OwnedFd>) -> Result<u64> {
    let failed = |error| internal("cannot read an upload", error);
    let shared = Arc::new(socket.get_ref().try_clone().map_err(failed)?);
    let (mut flow, mut came) = (Flow::new(), Came::Some);
    while came != Came::All {
        let ready = timeout(BODY_IDLE, socket.readable()).await.map_err(|_elapsed| {
            Error::new(Code::DeadlineExceeded, "the file's content stopped coming")
        })?;
        let mut ready = ready.map_err(failed)?;
        let from = Arc::clone(&shared);
        (flow, came) = upload
            .work(move |partial| {
                let came = flow.pump(&from, partial)?;
                Ok((flow, came))
            })
            .await?;
        if came == Came::Dry {
            ready.clear_ready();
        }
    }
    upload.finish().await
}

/// What came in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Some, and there may be more.
    Some,
    /// All that was there.
    Dry,
    /// The end.
    All,
}

/// Content on its way from the socket to the file. It is written in whole units: where a write begins
/// and ends inside a page, the file system works in many small steps.
struct Flow {
    /// The next frame's length, as far as it came.
    head: Filling,
    /// Bytes that are left of a frame.
    left: u64,
    /// A unit of content, as far as it came.
    unit: Filling,
}

struct Filling {
    bytes: Box<[u8]>,
    filled: usize,
}

impl Filling {
    fn of(size: usize) -> Self {
        Self { bytes: vec![0; size].into(), filled: 0 }
    }

    fn read(&mut self, socket: &OwnedFd, most: u64) -> rustix::io::Result<usize> {
        let room = self.bytes.len() - self.filled;
        let room = usize::try_from(most).unwrap_or(usize::MAX).min(room);
        let length = rustix::io::read(socket, &mut self.bytes[self.filled..][..room])?;
        self.filled += length;
        Ok(length)
    }

    fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    /// What is there; from here on it is empty.
    fn take(&mut self) -> &[u8] {
        &self.bytes[..std::mem::take(&mut self.filled)]
    }
}

impl Flow {
    fn new() -> Self {
        Self { head: Filling::of(size_of::<u64>()), left: 0, unit: Filling::of(CHUNK) }
    }

    /// Moves what comes into the file: all that is there, and what follows at once.
    fn pump(&mut self, socket: &OwnedFd, file: &mut Partial) -> Result<Came> {
        let (mut taken, mut lately) = (0, 0);
        while taken < TURN {
            match self.read(socket) {
                Ok(0) => return Err(Error::new(Code::Canceled, "the upload broke off")),
                Ok(length) => (taken, lately) = (taken + length, lately + length),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if lately >= BRISK && comes(socket) => lately = 0,
                Err(Errno::AGAIN) => return Ok(Came::Dry),
                Err(error) => return Err(internal("cannot read an upload", error)),
            }
            if self.head.is_full() {
                self.left = self.head.take().try_into().map_or(0, u64::from_be_bytes);
                if self.left == 0 {
                    file.write(self.unit.take())?;
                    return Ok(Came::All);
                }
            }
            if self.unit.is_full() {
                file.write(self.unit.take())?;
            }
        }
        Ok(Came::Some)
    }

    /// Reads what comes next: of a frame's length, or of its content.
    fn read(&mut self, socket: &OwnedFd) -> rustix::io::Result<usize> {
        if self.left == 0 {
            return self.head.read(socket, u64::MAX);
        }
        let length = self.unit.read(socket, self.left)?;
        self.left -= length as u64;
        Ok(length)
    }
}

/// Waits a moment for more.
fn comes(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
    rustix::event::poll(&mut watched, Some(&MOMENT)).is_ok_and(|ready| ready > 0)
}
