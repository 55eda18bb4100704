//! Bytes between a sandbox and what it reaches. Half-closes and resets are passed on; a side that
//! does not read costs one pipe or one buffer; a connection that waits costs neither.

mod bucket;
mod copy;
mod counted;
mod pipes;
mod splice;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::state::State;

pub(crate) use bucket::Bucket;
pub(crate) use copy::between;
pub(crate) use counted::Counted;
use pipes::Pipe;
pub(crate) use pipes::{PIPES, Pipes};

/// Most bytes that are moved in one go, where no limit says less.
const CHUNK: usize = 512 * 1024;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the sandbox.
    Out,
    /// To it.
    In,
}

/// What one connection's two ways share.
#[derive(Debug)]
pub(crate) struct Meter {
    state: Arc<State>,
    started: Instant,
    /// Milliseconds after `started` when bytes moved last.
    moved: AtomicU64,
}

impl Meter {
    pub(crate) fn new(state: &Arc<State>) -> Self {
        Self { state: Arc::clone(state), started: Instant::now(), moved: AtomicU64::new(0) }
    }

    /// Notes bytes that were moved; how long to wait where the sandbox has used up its bandwidth.
    pub(crate) fn moved(&self, way: Way, bytes: usize) -> Option<Duration> {
        let pause = self.state.moved(way, bytes);
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved.store(elapsed, Ordering::Relaxed);
        pause
    }

    /// Most bytes to move in one go.
    pub(crate) fn chunk(&self) -> usize {
        self.state.bucket.chunk(CHUNK)
    }

    /// Waits until nothing has moved for as long as is allowed.
    pub(crate) async fn idle(&self) {
        let limit = self.state.uplink.limits().idle;
        loop {
            let moved = Duration::from_millis(self.moved.load(Ordering::Relaxed));
            let end = self.started + moved + limit;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    fn pipe(&self) -> Option<Pipe<'_>> {
        self.state.uplink.pipes().take(&self.state.pipes_used)
    }
}

/// Moves bytes one way until the sender has ended, and passes the end on.
pub(crate) async fn one_way(
    meter: &Meter,
    way: Way,
    from: &TcpStream,
    to: &TcpStream,
) -> io::Result<()> {
    loop {
        from.readable().await?;
        let moved = match meter.pipe() {
            Some(pipe) => splice::burst(meter, way, from, to, pipe).await?,
            None => copy::burst(meter, way, from, to).await?,
        };
        match moved {
            Burst::Empty => {}
            Burst::Pause(pause) => tokio::time::sleep(pause).await,
            Burst::Ended => {
                rustix::net::shutdown(to, rustix::net::Shutdown::Write)?;
                return Ok(());
            }
        }
    }
}

/// How a run of bytes ended.
#[derive(Debug, PartialEq, Eq)]
enum Burst {
    /// There is nothing to read now.
    Empty,
    /// The sandbox has used up its bandwidth for this long.
    Pause(Duration),
    /// The sender has ended.
    Ended,
}

/// Writes all of it.
async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
