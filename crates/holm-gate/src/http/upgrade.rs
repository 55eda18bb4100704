//! A WebSocket: bytes both ways, neither read nor changed.

use std::io;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;

/// Bytes that wait one way.
const BUFFER: usize = 16 * 1024;

/// Connects two sides that have both agreed to it, until both have ended.
pub(super) async fn join(near: OnUpgrade, far: OnUpgrade) -> io::Result<()> {
    let (near, far) = tokio::try_join!(near, far).map_err(io::Error::other)?;
    let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
    copy_bidirectional_with_sizes(&mut near, &mut far, BUFFER, BUFFER).await.map(|_| ())
}
