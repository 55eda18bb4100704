//! Moving bytes through a buffer: where no pipe is left, and where the far side is not a plain
//! socket (a proxy that is spoken to by TLS).

use std::cell::RefCell;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Burst, Meter, Way, write_all};

/// Bytes of a buffer.
const BUFFER: usize = 16 * 1024;

thread_local! {
    /// One for all connections: it is used between two waits only.
    static SHARED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

/// Moves what there is, until there is no more. What the other side does not take at once is kept
/// in a buffer of its own until it does.
pub(super) async fn burst(
    meter: &Meter,
    way: Way,
    from: &TcpStream,
    to: &TcpStream,
) -> io::Result<Burst> {
    loop {
        let chunk = meter.chunk().min(BUFFER);
        let read = SHARED.with_borrow_mut(|buffer| {
            let buffer = buffer.get_mut(..chunk).unwrap_or_default();
            let length = from.try_read(buffer)?;
            let read = buffer.get(..length).unwrap_or_default();
            match to.try_write(read) {
                Ok(written) => Ok((length, read.get(written..).unwrap_or_default().to_vec())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Ok((length, read.to_vec()))
                }
                Err(error) => Err(error),
            }
        });
        match read {
            Ok((0, _)) => return Ok(Burst::Ended),
            Ok((length, rest)) => {
                write_all(to, &rest).await?;
                if let Some(pause) = meter.moved(way, length) {
                    return Ok(Burst::Pause(pause));
                }
                tokio::task::coop::consume_budget().await;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Burst::Empty),
            Err(error) => return Err(error),
        }
    }
}

/// Moves bytes one way between streams of any kind until the sender has ended, and passes the end
/// on.
pub(crate) async fn between(
    meter: &Meter,
    way: Way,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let chunk = meter.chunk().min(BUFFER);
        let length = from.read(buffer.get_mut(..chunk).unwrap_or_default()).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..length).unwrap_or_default()).await?;
        to.flush().await?;
        if let Some(pause) = meter.moved(way, length) {
            tokio::time::sleep(pause).await;
        }
    }
}
