//! Acting as a user, for one thread: file-system ids, groups and capabilities.
//!
//! The kernel keeps all of these per thread; the C library's wrappers would change every thread,
//! so the bare calls are made.

use std::io;

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

/// Makes every permitted capability of this thread effective, or none.
fn set_effective(all: bool) -> io::Result<()> {
    let mut header = CapHeader { version: CAP_VERSION_3, pid: 0 };
    let mut data = [CapData::default(); 2];
    // SAFETY: header and data have the layout of version 3 (two data words) and outlive the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        for word in &mut data {
            word.effective = if all { word.permitted } else { 0 };
        }
        if libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// From now on the kernel checks this thread's file calls as those of the given user. May be
/// called again for another user. Root keeps the guest's capabilities, everybody else has none.
pub fn act_as(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    set_effective(true)?;
    // SAFETY: plain integers, and a slice that outlives the call; the calls act on this thread.
    unsafe {
        if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        // These two report no failure; asking for the impossible id tells what is in force.
        let fsgid = libc::syscall(libc::SYS_setfsgid, u32::MAX);
        let fsuid = libc::syscall(libc::SYS_setfsuid, u32::MAX);
        if fsuid != libc::c_long::from(uid) || fsgid != libc::c_long::from(gid) {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
    }
    if uid == 0 { Ok(()) } else { set_effective(false) }
}
