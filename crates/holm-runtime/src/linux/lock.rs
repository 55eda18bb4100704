//! One service for each data directory: whoever holds this lock may take over what is there.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::private::{self, Purpose};

/// Takes it, or says that another has it. It goes with the file.
pub(super) fn take(data_dir: &Path) -> Result<File, Failure> {
    private::make(data_dir, Purpose::Data)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(data_dir.join("service.lock"))
        .tried("open the service's lock")?;
    let began = std::time::Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(errno) if began.elapsed() > LAST_HOLDERS => {
                return Err(Failure::of(
                    DriverErrorKind::InUse,
                    "Another holm serves this data directory; stop it, or choose another \
                     directory.",
                )
                .because(errno));
            }
            // There is no event for the end of such a child.
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A child of who had it before may hold it until it executes another program.
const LAST_HOLDERS: Duration = Duration::from_millis(500);
