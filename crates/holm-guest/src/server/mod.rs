//! HTTP on the guest's socket. Everything is bounded: connections, heads, bodies, waits.

pub mod body;
pub mod route;
pub mod rpc;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use crate::state::Shared;

/// Connections at once. More wait in the socket's queue until one ends.
const MAX_CONNECTIONS: usize = 256;
/// Most bytes that are read at once, which bounds a request's head as well. Files come in such
/// parts.
const MAX_READ: usize = 256 << 10;
/// A head must be complete within this time. It also bounds how long a kept connection idles,
/// since the wait for the next head counts.
const HEAD_DEADLINE: Duration = Duration::from_secs(300);
/// Wait after a failed accept (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves for ever.
pub async fn serve(guest: Shared, listener: OwnedFd) -> std::io::Result<()> {
    let listener = std::os::unix::net::UnixListener::from(listener);
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        let Ok((stream, _peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let guest = Shared::clone(&guest);
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request| {
                let guest = Shared::clone(&guest);
                async move { Ok::<_, std::convert::Infallible>(route::answer(guest, request).await) }
            });
            let mut server = http1::Builder::new();
            server
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_DEADLINE)
                .max_buf_size(MAX_READ);
            // A broken connection concerns its peer only.
            let _ = server.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            drop(permit);
        });
    }
}
