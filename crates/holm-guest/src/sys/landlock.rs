//! Landlock rule sets for commands.
//!
//! Landlock can only allow below a directory, never take away again further down. So:
//!
//! * **The sandbox user** gets write rights below each top-level directory except /proc, /sys and
//!   /dev, and on a short list of devices. `/` itself is not writable for it, so no new top-level
//!   directory can appear that would miss here (root makes one: the next command has it).
//! * **Root** may `mkdir /app && echo x > /app/f` in one command, which needs write rights below
//!   `/` and so below /proc and /sys too. No write right is therefore taken from root; what covers
//!   it there is the user namespace (their files belong to an id that is not mapped), the
//!   launcher's read-only mounts and masks, and the absence of device nodes. Root still runs in a
//!   domain of its own that handles only block nodes and renames: the kernel then refuses it to
//!   change mounts, and to trace or read (`/proc/PID/mem`, `environ`) what is outside the domain,
//!   PID 1 above all.
//!
//! Level 1 cannot rename between directories, so it is not used.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

const WRITE_FILE: u64 = 1 << 1;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

/// Devices that commands may write to.
const DEVICES: [&CStr; 8] = [
    c"/dev/null",
    c"/dev/zero",
    c"/dev/full",
    c"/dev/tty",
    c"/dev/ptmx",
    c"/dev/pts",
    c"/dev/shm",
    c"/dev/fd",
];

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// The kernel's level; 0 when there is no Landlock or only level 1.
pub fn level() -> u32 {
    // SAFETY: asking for the version takes no pointer.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(abi).ok().filter(|abi| *abi >= 2).unwrap_or(0)
}

fn create(handled: u64) -> io::Result<OwnedFd> {
    let attr = RulesetAttr { handled_access_fs: handled };
    // SAFETY: attr outlives the call and its size is given.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attr,
            size_of::<RulesetAttr>(),
            0u32,
        );
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

fn allow(ruleset: &OwnedFd, target: &OwnedFd, access: u64) -> io::Result<()> {
    let attr = PathBeneathAttr { allowed_access: access, parent_fd: target.as_raw_fd() };
    // SAFETY: attr has the kernel's packed layout and outlives the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const attr,
            0u32,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The rule set of the sandbox user's commands.
pub fn for_user(level: u32) -> io::Result<OwnedFd> {
    let truncate = if level >= 3 { TRUNCATE } else { 0 };
    let file = WRITE_FILE | truncate;
    let tree = file
        | REMOVE_DIR
        | REMOVE_FILE
        | MAKE_DIR
        | MAKE_REG
        | MAKE_SOCK
        | MAKE_FIFO
        | MAKE_SYM
        | REFER;
    let ruleset = create(tree | MAKE_CHAR | MAKE_BLOCK)?;
    let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root =
        rustix::fs::open("/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut entries = rustix::fs::RawDir::new(root.as_fd(), &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b".." | b"proc" | b"sys" | b"dev") {
            continue;
        }
        // What cannot be opened (it went away) gets no right.
        let Ok(target) = openat(&root, name, path, Mode::empty()) else { continue };
        let Ok(facts) = rustix::fs::fstat(&target) else { continue };
        match rustix::fs::FileType::from_raw_mode(facts.st_mode) {
            rustix::fs::FileType::Directory => allow(&ruleset, &target, tree)?,
            rustix::fs::FileType::RegularFile => allow(&ruleset, &target, file)?,
            _ => {}
        }
    }
    for device in DEVICES {
        let Ok(target) = rustix::fs::open(device, path, Mode::empty()) else { continue };
        let Ok(facts) = rustix::fs::fstat(&target) else { continue };
        match rustix::fs::FileType::from_raw_mode(facts.st_mode) {
            rustix::fs::FileType::Directory => allow(&ruleset, &target, tree)?,
            rustix::fs::FileType::CharacterDevice => allow(&ruleset, &target, file)?,
            _ => {}
        }
    }
    Ok(ruleset)
}

/// The rule set of root's commands (see the module's head).
pub fn for_root() -> io::Result<OwnedFd> {
    let ruleset = create(MAKE_BLOCK | REFER)?;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    allow(&ruleset, &root, REFER)?;
    Ok(ruleset)
}
