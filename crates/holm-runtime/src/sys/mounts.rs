//! Mount attributes, and the ioctl that gives up a file system.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Sets attributes of a mount given by descriptor; with `userns` its ids are mapped as that user
/// namespace maps them. With `recursive` all mounts below are changed too.
pub fn set_attributes(
    mount: impl AsFd,
    set: MountAttrFlags,
    userns: Option<BorrowedFd<'_>>,
    recursive: bool,
) -> Result<(), Errno> {
    let mut attr =
        MountAttr { attr_set: u64::from(set.bits()), attr_clr: 0, propagation: 0, userns_fd: 0 };
    if let Some(userns) = userns {
        attr.attr_set |= u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits());
        attr.userns_fd = u64::try_from(userns.as_raw_fd()).map_err(|_| Errno::BADF)?;
    }
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the empty path and `attr`, whose size is given, outlive the call.
    super::checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

const AT_RECURSIVE: libc::c_int = 0x8000;

/// `EXT4_IOC_SHUTDOWN` with "no log flush": the file system drops what it has not written, so that
/// its unmount costs nothing. Only for a file system that is about to be deleted.
pub fn shutdown_ext4(directory: impl AsFd) -> Result<(), Errno> {
    // _IOR('X', 125, __u32)
    const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
    let flag: u32 = 2;
    // SAFETY: the ioctl reads one u32, which outlives the call.
    let ret =
        unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), EXT4_IOC_SHUTDOWN, &raw const flag) };
    if ret < 0 { Err(super::last_errno()) } else { Ok(()) }
}
