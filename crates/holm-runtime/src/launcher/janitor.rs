//! A helper process that takes disks apart: an unmount may wait for writes, and the launcher waits
//! for nothing.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::failure::{Attempt, Failure};
use crate::helper;
use crate::sys;

/// The helper.
pub(super) struct Janitor {
    pub pid: i32,
    channel: Channel,
}

impl Janitor {
    pub(super) fn start() -> Result<Self, Failure> {
        let (ours, theirs) = Channel::pair().tried("make a channel")?;
        let pid = helper::start(c"holm-janitor", &[theirs.as_raw_fd()], || {
            work(&theirs);
            Ok(())
        })
        .tried("start the janitor")?;
        Ok(Self { pid, channel: ours })
    }

    /// Hands a disk over. Gives it back when the helper is gone.
    pub(super) fn give(&self, disk: OwnedFd) -> Result<(), OwnedFd> {
        if self.channel.send(&Word::Disk, &[disk.as_fd()]).is_err() {
            return Err(disk);
        }
        // Only when ours is closed may the helper close its own: the last one unmounts.
        drop(disk);
        let _ = self.channel.send(&Word::Now, &[]);
        Ok(())
    }

    /// Lets it finish, and waits for that.
    pub(super) fn finish(self) {
        let pid = Pid::from_raw(self.pid);
        drop(self.channel);
        if pid.is_some() {
            // Already reaped is as good.
            let _ =
                rustix::io::retry_on_intr(|| rustix::process::waitpid(pid, WaitOptions::empty()));
        }
    }
}

/// What the helper is told.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// Here is a disk; keep it.
    Disk,
    /// Nobody else has the disks any more.
    Now,
}

fn work(channel: &Channel) {
    let mut disks = Vec::new();
    while let Ok(Some((word, more))) = channel.receive::<Word>() {
        disks.extend(more);
        if matches!(word, Word::Now) {
            for disk in disks.drain(..) {
                // Without this the unmount would write out what is about to be deleted. An error
                // only means that it does.
                let _ = sys::mounts::shutdown_ext4(&disk);
            }
        }
    }
}
