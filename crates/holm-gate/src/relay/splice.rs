//! Moving bytes within the kernel: from a socket into a pipe, from the pipe into the other socket.

use std::io;
use std::os::fd::AsFd;

use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::pipes::Pipe;
use super::{Burst, Meter, Way};

/// Moves what there is, until there is no more.
pub(super) async fn burst(
    meter: &Meter,
    way: Way,
    from: &TcpStream,
    to: &TcpStream,
    mut pipe: Pipe<'_>,
) -> io::Result<Burst> {
    loop {
        let read = from.try_io(Interest::READABLE, || fill(&mut pipe, from, meter.chunk()));
        let length = match read {
            Ok(0) => return Ok(Burst::Ended),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Burst::Empty),
            Err(error) => return Err(error),
        };
        while pipe.held > 0 {
            to.async_io(Interest::WRITABLE, || drain(&mut pipe, to)).await?;
        }
        if let Some(pause) = meter.moved(way, length) {
            return Ok(Burst::Pause(pause));
        }
        // Others of this thread have a turn, however fast this connection is.
        tokio::task::coop::consume_budget().await;
    }
}

/// The pipe is empty here, so that "would block" speaks of the socket.
fn fill(pipe: &mut Pipe<'_>, from: &TcpStream, chunk: usize) -> io::Result<usize> {
    let Some((_, write)) = pipe.ends() else { return Ok(0) };
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let length = splice(from.as_fd(), None, write, None, chunk, flags)?;
    pipe.held = length;
    Ok(length)
}

/// The pipe has bytes here, so that "would block" speaks of the socket.
fn drain(pipe: &mut Pipe<'_>, to: &TcpStream) -> io::Result<()> {
    let Some((read, _)) = pipe.ends() else { return Ok(()) };
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let length = splice(read, None, to.as_fd(), None, pipe.held, flags)?;
    if length == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    pipe.held = pipe.held.saturating_sub(length);
    Ok(())
}
