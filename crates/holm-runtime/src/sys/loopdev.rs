//! Loop devices: an image file becomes a block device that goes away with its last user.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// The number of a device that was free a moment ago; another process may take it before us.
pub fn find_free(control: impl AsFd) -> Result<i32, Errno> {
    // SAFETY: the ioctl takes no argument.
    let ret = unsafe { libc::ioctl(control.as_fd().as_raw_fd(), LOOP_CTL_GET_FREE) };
    if ret < 0 { Err(super::last_errno()) } else { Ok(ret) }
}

/// Binds `file` to `device` until the device's last user is gone. [`Errno::BUSY`] when another
/// process took the device.
pub fn attach(device: impl AsFd, file: impl AsFd, block_size: u32) -> Result<(), Errno> {
    // SAFETY: plain numbers and byte arrays, for which zero is a valid value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = u32::try_from(file.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    config.block_size = block_size;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // SAFETY: the ioctl reads one `loop_config`, which outlives the call.
    let ret = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if ret < 0 { Err(super::last_errno()) } else { Ok(()) }
}
