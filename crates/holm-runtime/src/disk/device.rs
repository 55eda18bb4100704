//! Loop devices: one that is free, bound to an image for as long as it is used.
//!
//! `LOOP_CONFIGURE` binds a device with all its settings in one call. Kernels before 5.8 do not have
//! it; there is no other way here, because holm needs 6.1 for other things.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::BLOCK;
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::sys;

/// How often another process may take the loop device that we were about to take.
pub(super) const TRIES: usize = 64;

pub(super) fn open_control() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Binds the image to a free device. The binding ends with the device's last user.
pub(super) fn attach(image: &File) -> Result<(OwnedFd, PathBuf), Failure> {
    let control = open_control().map_err(|errno| refused("open /dev/loop-control", errno))?;
    // Many builders at once would take each other's device over and over; other programs may
    // still come between, for which there are the tries. The lock goes with the descriptor.
    rustix::fs::flock(&control, FlockOperation::LockExclusive)
        .tried("wait for /dev/loop-control")?;
    claim(
        || sys::loopdev::find_free(&control),
        |path| {
            let flags = OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty())
        },
        |device| sys::loopdev::attach(device, image, BLOCK),
    )
}

/// Finds, opens and binds a device; what others do at the same time is tried again.
pub(super) fn claim<D>(
    mut find: impl FnMut() -> Result<i32, Errno>,
    mut open: impl FnMut(&PathBuf) -> Result<D, Errno>,
    mut bind: impl FnMut(&D) -> Result<(), Errno>,
) -> Result<(D, PathBuf), Failure> {
    let mut last = ("find a loop device", Errno::BUSY);
    for _ in 0..TRIES {
        let number = match find() {
            Ok(number) => number,
            Err(errno) if is_race(errno) => {
                last = ("find a loop device", errno);
                continue;
            }
            Err(errno) => return Err(refused("find a loop device", errno)),
        };
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = match open(&path) {
            Ok(device) => device,
            // The device is being made or removed at this moment.
            Err(errno) if is_race(errno) || errno == Errno::NOENT => {
                last = ("open a loop device", errno);
                continue;
            }
            Err(errno) => return Err(refused("open a loop device", errno)),
        };
        match bind(&device) {
            Ok(()) => return Ok((device, path)),
            // Another process took the device between the two calls.
            Err(errno) if is_race(errno) => last = ("bind a loop device", errno),
            Err(errno) => return Err(refused("bind a loop device", errno)),
        }
    }
    Err(refused(last.0, last.1))
}

/// Another process was faster, or a signal came between.
fn is_race(errno: Errno) -> bool {
    matches!(errno, Errno::BUSY | Errno::NXIO | Errno::AGAIN | Errno::INTR | Errno::EXIST)
}

/// What a call on loop devices failed with, with its mend.
fn refused(what: &str, errno: Errno) -> Failure {
    let (kind, text) = match errno {
        Errno::PERM | Errno::ACCESS => (
            DriverErrorKind::IsolationUnavailable,
            "The host does not let holm use its loop devices, on which the disks of sandboxes are; \
             a container must be given /dev/loop-control and the devices /dev/loop*.",
        ),
        Errno::NOENT => (
            DriverErrorKind::IsolationUnavailable,
            "A loop device for a sandbox's disk has no file in /dev; a container must be given \
             the host's /dev/loop-control and /dev/loop*.",
        ),
        Errno::NOTTY | Errno::INVAL | Errno::NOSYS => (
            DriverErrorKind::IsolationUnavailable,
            "The host's kernel cannot bind a loop device in one call (LOOP_CONFIGURE); holm needs \
             Linux 6.1 or later.",
        ),
        _ => (
            DriverErrorKind::HostExhausted,
            "The host has no free loop device for a sandbox's disk; end other sandboxes or release \
             devices that are no longer used (losetup -l lists them).",
        ),
    };
    Failure::of(kind, text).because(format!("{what}: {errno}"))
}
