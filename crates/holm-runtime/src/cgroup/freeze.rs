//! Stopping all processes of a group, and waiting until the kernel has done so.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Control as _, Group};

/// Longest pause between two looks where nobody tells of a change.
const LOOK: Duration = Duration::from_millis(20);
/// After how many looks a group is let go for a moment.
const ANEW: u32 = 16;

impl Group {
    /// Stops all processes and returns once all stand still. Blocks the thread. After an error all
    /// go on.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where there is no freezer; [`io::ErrorKind::TimedOut`] when
    /// something does not stop within `patience`, as what waits for a disk may.
    pub fn freeze_whole(&self, patience: Duration) -> io::Result<()> {
        let stopped = self.freeze(true).and_then(|()| self.wait_frozen(Instant::now() + patience));
        if stopped.is_err() {
            // Where there is no freezer there is nothing to undo.
            let _ = self.freeze(false);
        }
        stopped
    }

    fn wait_frozen(&self, late: Instant) -> io::Result<()> {
        match self {
            Self::V1(_) => self.look_until_frozen(late),
            Self::V2(group) => told_frozen(&group.events(), late),
        }
    }

    /// The old interface has no event for it, and goes on with what did not stop at once only when
    /// somebody looks. Of a group that makes processes all the time some may never stop: it is asked
    /// again each time, and now and then let go for a moment and asked anew.
    fn look_until_frozen(&self, late: Instant) -> io::Result<()> {
        let mut pause = Duration::from_millis(1);
        let mut looks = 0_u32;
        while !self.is_frozen()? {
            if Instant::now() >= late {
                return Err(io::ErrorKind::TimedOut.into());
            }
            looks += 1;
            if looks.is_multiple_of(ANEW) {
                self.freeze(false)?;
                pause = Duration::from_millis(1);
            }
            self.freeze(true)?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
        Ok(())
    }
}

/// Waits for `frozen 1` in the unified hierarchy's `cgroup.events`, of whose changes the kernel
/// tells.
fn told_frozen(events: &Path, late: Instant) -> io::Result<()> {
    let mut file = File::open(events)?;
    loop {
        let mut text = String::new();
        file.rewind()?;
        file.read_to_string(&mut text)?;
        if text.lines().any(|line| line == "frozen 1") {
            return Ok(());
        }
        let left = late.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let wait = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A change since the last read is told at once.
        match poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Lets the processes of a directory's group go on, if it is one that stops processes. Those that
/// are killed while they stand still die by that (old interface).
pub(super) fn thaw(dir: &Path) {
    for (file, text) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        // Nearly always there is no such file here, or nothing stands still.
        let _ = super::write(dir, file, text);
    }
}
