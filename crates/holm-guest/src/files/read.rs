//! Opening files for reading: regular ones only, so that no read ever blocks or takes data away.

use std::ffi::CStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FileType, Mode, OFlags};

use super::path::{show, split};
use crate::errors::{self, Result, invalid, shorten};

/// One read takes this much.
pub const CHUNK: usize = 256 << 10;
/// Most bytes given of a file whose size the kernel does not tell (/proc, /sys).
const UNSIZED: u64 = 1 << 20;
const PROC_MAGIC: u64 = 0x9fa0;
const SYS_MAGIC: u64 = 0x6265_6572;

/// An open file.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its size now.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// The size means nothing: the kernel makes the content up.
    pub made_up: bool,
}

/// What kind of file this is, in words.
pub fn kind(mode: u32) -> &'static str {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of unknown kind",
    }
}

/// Refuses everything but regular files.
pub fn regular(path: &CStr, mode: u32) -> Result<()> {
    if FileType::from_raw_mode(mode) == FileType::RegularFile {
        return Ok(());
    }
    Err(invalid(format!(
        "{} is {}; only regular files are read and written",
        shorten(&show(path)),
        kind(mode)
    )))
}

/// Opens a file.
///
/// # Errors
/// When the user may not, or it is not a regular file, or it is memory of a process.
pub fn open(path: &CStr) -> Result<Opened> {
    let failed = |error| errors::file("read", &show(path), error);
    split(path)?;
    // Looked at before it is opened: opening alone would wake the writer of a pipe, or a device.
    let facts = rustix::fs::stat(path).map_err(failed)?;
    regular(path, facts.st_mode)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let facts = rustix::fs::fstat(&fd).map_err(failed)?;
    regular(path, facts.st_mode)?;
    let system = rustix::fs::fstatfs(&fd).map_err(failed)?.f_type.cast_unsigned();
    let made_up = system == PROC_MAGIC || system == SYS_MAGIC;
    let name = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or(b"");
    if made_up && matches!(name, b"mem" | b"pagemap" | b"kcore" | b"kmsg" | b"kpagecount") {
        return Err(invalid(format!("{} is memory, not a file", shorten(&show(path)))));
    }
    let size = u64::try_from(facts.st_size).unwrap_or(0);
    Ok(Opened { file: File::from(fd), size, mode: facts.st_mode & 0o7777, made_up })
}

impl Opened {
    /// How many bytes a reader gets from `offset` when it asks for at most `limit` (0: all);
    /// `None` when only reading can tell.
    pub fn length(&self, offset: u64, limit: u64) -> Option<u64> {
        let limit = if limit == 0 { u64::MAX } else { limit };
        (!self.made_up).then(|| self.size.saturating_sub(offset).min(limit))
    }

    /// Everything from `offset`, at most `limit` bytes, of a file that the kernel makes up.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_made_up(&self, path: &CStr, offset: u64, limit: u64) -> Result<Vec<u8>> {
        let most = if limit == 0 { UNSIZED } else { limit.min(UNSIZED) };
        let mut all = Vec::new();
        while (all.len() as u64) < most {
            let room = usize::try_from(most - all.len() as u64).unwrap_or(CHUNK).min(CHUNK);
            let part = self.read_at(path, offset + all.len() as u64, room)?;
            if part.is_empty() {
                break;
            }
            all.extend_from_slice(&part);
        }
        Ok(all)
    }

    /// Up to `most` bytes at `offset`; fewer only at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read_at(&self, path: &CStr, offset: u64, most: usize) -> Result<Vec<u8>> {
        read_at(&self.file, path, offset, most)
    }
}

/// Up to `most` bytes at `offset`; fewer only at the end.
///
/// # Errors
/// When the file cannot be read.
pub fn read_at(file: &File, path: &CStr, offset: u64, most: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    read_into(file, path, offset, most, &mut buffer)?;
    Ok(buffer)
}

/// The same into a buffer that may have been used before, in place of what it held.
///
/// # Errors
/// When the file cannot be read.
pub fn read_into(
    file: &File,
    path: &CStr,
    offset: u64,
    most: usize,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    buffer.resize(most, 0);
    let mut filled = 0;
    while filled < most {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let error =
                    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                return Err(errors::file("read", &show(path), error));
            }
        }
    }
    buffer.truncate(filled);
    Ok(())
}
