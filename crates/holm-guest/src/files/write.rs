//! Writing files so that readers see the old content or the new, never a part.
//!
//! The content goes to a new file beside the old one, which then takes its name. Where the path
//! ends in a symbolic link, the file it leads to is written, as a program would. The owner is the
//! acting user; root keeps the owner of a file that it overwrites. Set-id bits are never set.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use holm_wire::connect::Error;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::path::{absolute_bytes, show, split};
use super::read::regular;
use crate::errors::{self, Result, invalid, shorten};

/// Links followed at the end of a path.
const MAX_LINKS: usize = 40;
/// Mode of a new file.
const NEW: u32 = 0o644;

/// A file on its way. To be finished, or dropped, as the user who began it; dropped without having
/// been finished, it leaves nothing.
#[derive(Debug)]
pub struct Partial {
    directory: OwnedFd,
    temporary: CString,
    name: CString,
    file: File,
    mode: u32,
    owner: Option<(u32, u32)>,
    path: String,
    size: u64,
    done: bool,
}

fn failed(path: &str, error: Errno) -> Error {
    errors::file("write", path, error)
}

/// Makes a directory and those above it, with mode 0755. Gives whether the last one is new.
///
/// # Errors
/// When one cannot be made, or something else has its name.
pub fn make_directories(path: &CStr) -> rustix::io::Result<bool> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => {
            let facts = rustix::fs::stat(path)?;
            let directory = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_dir();
            if directory { Ok(false) } else { Err(Errno::NOTDIR) }
        }
        Err(Errno::NOENT) => {
            let bytes = path.to_bytes();
            let trimmed = bytes.strip_suffix(b"/").unwrap_or(bytes);
            let at = trimmed.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if at == 0 {
                return Err(Errno::NOENT);
            }
            let above = CString::new(&trimmed[..at]).map_err(|_| Errno::INVAL)?;
            make_directories(&above)?;
            match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
                Err(Errno::EXIST) => Ok(false),
                other => other.map(|()| true),
            }
        }
        Err(error) => Err(error),
    }
}

/// `path` without detours through directories that do not exist: `missing/..` is where one was
/// before. So nothing is made on the way to somewhere else, least of all for a write that is then
/// refused. What exists, links included, is left to the kernel.
pub fn direct(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let mut way: Vec<u8> = Vec::with_capacity(bytes.len());
    for part in bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        if part == b".." && !way.is_empty() && !way.ends_with(b"/..") && is_missing(&way) {
            way.truncate(way.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
            continue;
        }
        way.push(b'/');
        way.extend_from_slice(part);
    }
    if way.is_empty() || bytes.ends_with(b"/") {
        way.push(b'/');
    }
    CString::new(way).unwrap_or_else(|_| path.to_owned())
}

fn is_missing(path: &[u8]) -> bool {
    rustix::fs::lstat(path).is_err_and(|errno| errno == Errno::NOENT)
}

/// Opens the directory of the file that `path` leads to, and gives its name there.
fn locate(path: &CStr) -> Result<(OwnedFd, CString)> {
    let mut current = path.to_owned();
    let shown = show(path);
    for _ in 0..MAX_LINKS {
        let (above, name) = split(&current)?;
        let above = direct(&above);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(&above, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                make_directories(&above).map_err(|error| failed(&shown, error))?;
                rustix::fs::open(&above, flags, Mode::empty())
            }
            other => other,
        };
        let directory = opened.map_err(|error| failed(&shown, error))?;
        match rustix::fs::readlinkat(&directory, &name, Vec::new()) {
            Ok(target) => {
                current = absolute_bytes(target.to_bytes(), &show_lossless(&above)?)?;
            }
            Err(Errno::INVAL | Errno::NOENT) => return Ok((directory, name)),
            Err(error) => return Err(failed(&shown, error)),
        }
    }
    Err(failed(&shown, Errno::LOOP))
}

/// The base of a relative link must be exact, or the link would lead elsewhere.
fn show_lossless(path: &CStr) -> Result<String> {
    path.to_str().map(str::to_owned).map_err(|_| {
        invalid(format!(
            "{} is a link in a directory whose name is not UTF-8",
            shorten(&show(path))
        ))
    })
}

impl Partial {
    /// Begins to write a file. Missing directories are made.
    ///
    /// # Errors
    /// When the user may not write there, or what is there is not a regular file.
    pub fn begin(path: &CStr, mode: Option<u32>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (directory, name) = locate(path)?;
        let shown = show(path);
        let (old_mode, owner) =
            match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(facts) => {
                    regular(path, facts.st_mode)?;
                    (facts.st_mode, Some((facts.st_uid, facts.st_gid)))
                }
                Err(Errno::NOENT) => (NEW, None),
                Err(error) => return Err(failed(&shown, error)),
            };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let temporary = CString::new(format!(".holm-{number:x}.part")).unwrap_or_default();
            match rustix::fs::openat(&directory, &temporary, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    return Ok(Self {
                        directory,
                        temporary,
                        name,
                        file: File::from(file),
                        mode: mode.unwrap_or(old_mode) & 0o777,
                        owner,
                        path: shown,
                        size: 0,
                        done: false,
                    });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(&shown, error)),
            }
        }
    }

    /// Adds content.
    ///
    /// # Errors
    /// When the disk is full, or another limit is reached.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.size += bytes.len() as u64;
        self.file
            .write_all(bytes)
            .map_err(|error| failed(&self.path, Errno::from_io_error(&error).unwrap_or(Errno::IO)))
    }

    /// Sets an attribute. Best effort: not every file system has them.
    pub fn set_attribute(&self, name: &str, value: &[u8]) {
        let _ = rustix::fs::fsetxattr(&self.file, name, value, rustix::fs::XattrFlags::empty());
    }

    /// Gives the file its name. Gives its size.
    ///
    /// # Errors
    /// When that fails; the temporary file is gone then, too.
    pub fn finish(mut self) -> Result<u64> {
        self.publish().map_err(|error| failed(&self.path, error))?;
        self.done = true;
        Ok(self.size)
    }

    fn publish(&self) -> rustix::io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            let facts = rustix::fs::fstat(&self.file)?;
            if (facts.st_uid, facts.st_gid) != (uid, gid) {
                // Only root can; another user becomes the owner of what it writes.
                let _ = rustix::fs::fchown(
                    self.file.as_fd(),
                    Some(Uid::from_raw(uid)),
                    Some(Gid::from_raw(gid)),
                );
            }
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(self.mode))?;
        rustix::fs::renameat(&self.directory, &self.temporary, &self.directory, &self.name)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.done {
            // What cannot be removed was removed or moved by the sandbox itself.
            let _ = rustix::fs::unlinkat(&self.directory, &self.temporary, AtFlags::empty());
        }
    }
}
