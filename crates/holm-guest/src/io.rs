//! Reading and writing watched descriptors.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::sys::raw;

/// One read takes at most this much.
pub const CHUNK: usize = 64 << 10;

thread_local! {
    /// One buffer for all readers: a read copies what it keeps before anyone else runs.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn with_buffer<T>(read: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        read(buffer)
    })
}

/// Waits for output and hands it on. False at the end. (A terminal ends with an error, once
/// nobody has it open any more.)
pub async fn read_some(fd: &AsyncFd<OwnedFd>, mut take: impl FnMut(&[u8])) -> bool {
    loop {
        let Ok(mut ready) = fd.readable().await else { return false };
        let got = with_buffer(|buffer| {
            let got =
                ready.try_io(|fd| rustix::io::read(fd, &mut *buffer).map_err(std::io::Error::from));
            if let Ok(Ok(length)) = got {
                take(&buffer[..length]);
            }
            got
        });
        match got {
            Err(_not_ready) => {}
            Ok(Ok(length)) => return length > 0,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(Err(_)) => return false,
        }
    }
}

/// Takes what is in the pipe at this moment, and no more: what a background process writes
/// meanwhile is none of the caller's.
pub fn drain(fd: &AsyncFd<OwnedFd>, mut take: impl FnMut(&[u8])) {
    let mut left = raw::bytes_waiting(fd.get_ref().as_fd());
    while left > 0 {
        let length = with_buffer(|buffer| {
            let most = left.min(buffer.len());
            let length = rustix::io::read(fd.get_ref(), &mut buffer[..most]).unwrap_or(0);
            take(&buffer[..length]);
            length
        });
        if length == 0 {
            return;
        }
        left -= length;
    }
}

/// Writes everything.
///
/// # Errors
/// When nobody reads any more.
pub async fn write_all(fd: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = fd.writable().await?;
        match ready.try_io(|fd| rustix::io::write(fd, bytes).map_err(std::io::Error::from)) {
            Err(_not_ready) => {}
            Ok(Ok(length)) => bytes = &bytes[length..],
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(Err(error)) => return Err(error),
        }
    }
    Ok(())
}
