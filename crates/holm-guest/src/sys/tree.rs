//! Finding and killing everything below a process. Allocates nothing (see the parent module).

use std::io::Write as _;

/// Most processes looked at in one pass; callers repeat passes until nothing is left.
const MOST: usize = 4096;

/// A path built on the stack, with the closing NUL.
struct Path {
    bytes: [u8; 64],
    length: usize,
}

impl Path {
    fn new(arguments: std::fmt::Arguments<'_>) -> Self {
        let mut path = Self { bytes: [0; 64], length: 0 };
        // One byte stays for the NUL. Two process ids and the fixed words always fit.
        let mut rest = &mut path.bytes[..63];
        let _ = rest.write_fmt(arguments);
        path.length = 63 - rest.len();
        path
    }

    fn open(&self, flags: i32) -> Option<Descriptor> {
        debug_assert!(self.length < 64);
        // SAFETY: the array holds a NUL after the text and outlives the call.
        let fd = unsafe { libc::open(self.bytes.as_ptr().cast(), flags | libc::O_CLOEXEC) };
        (fd >= 0).then_some(Descriptor(fd))
    }
}

struct Descriptor(i32);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the number was opened by `Path::open` and is closed only here.
        unsafe {
            libc::close(self.0);
        }
    }
}

/// Process ids found so far.
struct Found {
    pids: [i32; MOST],
    count: usize,
}

impl Found {
    fn add(&mut self, pid: i32) {
        if self.count < MOST {
            self.pids[self.count] = pid;
            self.count += 1;
        }
    }
}

/// Adds the children of every thread of `pid` ("self" for 0).
fn add_children(pid: i32, found: &mut Found, skip: &dyn Fn(i32) -> bool) {
    let tasks = if pid == 0 {
        Path::new(format_args!("/proc/self/task"))
    } else {
        Path::new(format_args!("/proc/{pid}/task"))
    };
    let Some(directory) = tasks.open(libc::O_RDONLY | libc::O_DIRECTORY) else { return };
    let mut buffer = [0u8; 2048];
    loop {
        // SAFETY: the buffer is valid for its whole length.
        let got = unsafe {
            libc::syscall(libc::SYS_getdents64, directory.0, buffer.as_mut_ptr(), buffer.len())
        };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { return };
        let mut at = 0;
        // struct linux_dirent64: u64 inode, i64 offset, u16 length, u8 type, name.
        while at + 19 < got {
            let length = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            let task = number(&buffer[at + 19..got]);
            if task > 0 {
                add_task_children(pid, task, found, skip);
            }
            if length == 0 {
                return;
            }
            at += length;
        }
    }
}

fn add_task_children(pid: i32, task: i32, found: &mut Found, skip: &dyn Fn(i32) -> bool) {
    let list = if pid == 0 {
        Path::new(format_args!("/proc/self/task/{task}/children"))
    } else {
        Path::new(format_args!("/proc/{pid}/task/{task}/children"))
    };
    let Some(file) = list.open(libc::O_RDONLY) else { return };
    let mut buffer = [0u8; 4096];
    let mut current = 0i32;
    loop {
        // SAFETY: the buffer is valid for its whole length.
        let got = unsafe { libc::read(file.0, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|got| *got > 0) else { break };
        for byte in &buffer[..got] {
            if byte.is_ascii_digit() {
                current = current.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else if current > 0 {
                if !skip(current) {
                    found.add(current);
                }
                current = 0;
            }
        }
    }
    if current > 0 && !skip(current) {
        found.add(current);
    }
}

/// The number at the start of a text; 0 where there is none.
fn number(text: &[u8]) -> i32 {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0i32, |sum, byte| sum.wrapping_mul(10).wrapping_add(i32::from(byte - b'0')))
}

/// Kills everything below this process but the direct children that `skip` names (and what is
/// below those). One pass: repeat until it gives 0. Gives the number of processes signalled.
pub fn kill_descendants(skip: &dyn Fn(i32) -> bool) -> usize {
    let mut found = Found { pids: [0; MOST], count: 0 };
    add_children(0, &mut found, skip);
    let mut next = 0;
    while next < found.count {
        let pid = found.pids[next];
        // Children first: once the parent is dead they are this process's own and no longer
        // below it. What is forked in between is found by the next pass.
        add_children(pid, &mut found, &|_| false);
        super::raw::kill(pid, libc::SIGKILL);
        next += 1;
    }
    found.count
}
