//! Taking ended children, and ending orphans.
//!
//! Every child of the guest is a supervisor, or an orphan whose supervisor was killed by the
//! very commands it watched (or by the kernel, for memory). Orphans are killed: otherwise killing
//! its supervisor would be a command's way past its deadline.

use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep};

use crate::state::Shared;
use crate::sys::raw::{self, Reaped};
use crate::sys::tree;

/// How long one sweep may go on.
const SWEEP: Duration = Duration::from_secs(3);

/// Takes ended children for as long as the guest runs.
pub async fn serve(guest: Shared, signals: AsyncFd<std::os::fd::OwnedFd>) {
    let mut info = [0u8; 1024];
    loop {
        let Ok(mut ready) = signals.readable().await else { return };
        let _ = ready.try_io(|fd| rustix::io::read(fd, &mut info).map_err(std::io::Error::from));
        reap(&guest);
    }
}

/// Takes all children that have ended now.
pub fn reap(guest: &Shared) {
    while let Reaped::Child(pid, status) = raw::reap() {
        let supervisor = guest.supervisors.borrow_mut().remove(&pid);
        if supervisor && status != 0 {
            tokio::task::spawn_local(sweep(Shared::clone(guest)));
        }
    }
}

/// Kills orphans until none is left.
pub async fn sweep(guest: Shared) {
    let end = Instant::now() + SWEEP;
    loop {
        let killed = tree::kill_descendants(&|pid| guest.supervisors.borrow().contains(&pid));
        reap(&guest);
        if killed == 0 || Instant::now() > end {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
}
