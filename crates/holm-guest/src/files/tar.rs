//! Writing a tree as a tar stream (ustar, with pax records where a field is too small).
//!
//! Read part by part: nothing but the directories on the way down is held. Sockets are left out;
//! device nodes do not exist in a sandbox. A file that cannot be read breaks the stream off:
//! an archive that silently misses something is worse than none.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat};
use rustix::io::Errno;

use super::path::{show, split};
use crate::errors::{self, Result, invalid, shorten};

/// One block.
pub const BLOCK: usize = 512;
/// One part of the stream is about this long.
const PART: usize = 256 << 10;
/// Levels of directories.
const MAX_DEPTH: usize = 200;

struct Level {
    directory: OwnedFd,
    /// Path in the archive, empty or with a slash at the end.
    prefix: Vec<u8>,
    names: Vec<CString>,
    ended: bool,
}

/// Makes the stream.
pub struct Producer {
    shown: String,
    levels: Vec<Level>,
    /// The file being read, and what its header still promises.
    file: Option<(File, u64)>,
    /// A single file instead of a tree.
    single: Option<(OwnedFd, CString)>,
    ended: bool,
}

fn open_directory(at: impl std::os::fd::AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

impl Producer {
    /// A stream of what is below a directory, or of one file.
    ///
    /// # Errors
    /// When the path is neither, or cannot be read.
    pub fn new(path: &CStr) -> Result<Self> {
        let shown = show(path);
        let failed = |error| errors::file("read", &shown, error);
        let facts = rustix::fs::stat(path).map_err(failed)?;
        let mut producer = Self {
            shown: shown.clone(),
            levels: Vec::new(),
            file: None,
            single: None,
            ended: false,
        };
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let directory = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
                producer.enter(directory, Vec::new());
            }
            FileType::RegularFile => {
                let (above, name) = split(path)?;
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let above = openat(CWD, &above, flags, Mode::empty()).map_err(failed)?;
                producer.single = Some((above, name));
            }
            _ => return Err(invalid(format!("{} is neither file nor directory", shorten(&shown)))),
        }
        Ok(producer)
    }

    fn enter(&mut self, directory: OwnedFd, prefix: Vec<u8>) {
        self.levels.push(Level { directory, prefix, names: Vec::new(), ended: false });
    }

    /// The next part; empty at the end.
    ///
    /// # Errors
    /// When something cannot be read.
    pub fn next(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < PART && !self.ended {
            if self.file.is_some() {
                self.content(&mut out)?;
            } else if let Some((above, name)) = self.single.take() {
                self.entry(&above, &name, name.to_bytes().to_vec(), &mut out)?;
            } else if !self.step(&mut out)? {
                out.resize(out.len() + 2 * BLOCK, 0);
                self.ended = true;
            }
        }
        Ok(out)
    }

    /// One more entry. False when there is none.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        if level.names.is_empty() && !level.ended {
            let read = more_names(&level.directory);
            let names = read.map_err(|error| errors::file("list", &self.shown, error))?;
            level.ended = names.is_empty();
            level.names = names;
        }
        let Some(name) = level.names.pop() else {
            self.levels.pop();
            return Ok(true);
        };
        let mut path = level.prefix.clone();
        path.extend_from_slice(name.to_bytes());
        let depth = self.levels.len();
        let Some(above) = self.levels.pop() else { return Ok(false) };
        let below = self.entry(&above.directory, &name, path.clone(), out);
        self.levels.push(above);
        if let Some(directory) = below? {
            if depth >= MAX_DEPTH {
                return Err(invalid(format!(
                    "{} nests directories more than {MAX_DEPTH} deep",
                    shorten(&self.shown)
                )));
            }
            path.push(b'/');
            self.enter(directory, path);
        }
        Ok(true)
    }

    /// Writes an entry's header. Gives the directory when it is one.
    fn entry(
        &mut self,
        above: &OwnedFd,
        name: &CStr,
        mut path: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<OwnedFd>> {
        let failed = |error| {
            let full = format!("{}/{}", self.shown, String::from_utf8_lossy(&path));
            errors::file("read", &full, error)
        };
        let facts = match rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(facts) => facts,
            // Gone meanwhile.
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = openat(above, name, flags, Mode::empty()).map_err(failed)?;
                let facts = rustix::fs::fstat(&file).map_err(failed)?;
                let size = u64::try_from(facts.st_size).unwrap_or(0);
                header(out, &path, b'0', &facts, size, b"");
                self.file = Some((File::from(file), size));
            }
            FileType::Directory => {
                let directory = open_directory(above, name).map_err(failed)?;
                path.push(b'/');
                header(out, &path, b'5', &facts, 0, b"");
                return Ok(Some(directory));
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(above, name, Vec::new()).map_err(failed)?;
                header(out, &path, b'2', &facts, 0, target.to_bytes());
            }
            FileType::Fifo => header(out, &path, b'6', &facts, 0, b""),
            _ => {}
        }
        Ok(None)
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let Some((file, left)) = &mut self.file else { return Ok(()) };
        let most = usize::try_from(*left).unwrap_or(PART).min(PART);
        let start = out.len();
        let read = file.take(most as u64).read_to_end(out);
        read.map_err(|error| {
            errors::file("read", &self.shown, Errno::from_io_error(&error).unwrap_or(Errno::IO))
        })?;
        // A file that became shorter is filled up: the header has promised its length.
        out.resize(start + most, 0);
        *left -= most as u64;
        if *left == 0 {
            // The tail of the last block. Parts before it are multiples of a block.
            out.resize(start + most.next_multiple_of(BLOCK), 0);
            self.file = None;
        }
        Ok(())
    }
}

/// What one system call gives of a directory's names.
fn more_names(directory: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    loop {
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut reader = RawDir::new(directory, buffer.spare_capacity_mut());
        let mut names = Vec::new();
        let mut any = false;
        while let Some(entry) = reader.next() {
            any = true;
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.push(entry.file_name().to_owned());
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        if !names.is_empty() || !any {
            return Ok(names);
        }
    }
}

fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    // Values that do not fit are in a pax record as well.
    let start = text.len().saturating_sub(digits);
    field[..digits].copy_from_slice(&text.as_bytes()[start..]);
}

fn header(out: &mut Vec<u8>, path: &[u8], kind: u8, facts: &Stat, size: u64, target: &[u8]) {
    let mut records = Vec::new();
    for (key, value, most) in [("path", path, 100), ("linkpath", target, 100)] {
        if value.len() > most {
            records.extend_from_slice(&record(key, value));
        }
    }
    for (key, value, most) in [
        ("size", size, 0o77_777_777_777),
        ("uid", u64::from(facts.st_uid), 0o7_777_777),
        ("gid", u64::from(facts.st_gid), 0o7_777_777),
    ] {
        if value > most {
            records.extend_from_slice(&record(key, value.to_string().as_bytes()));
        }
    }
    if !records.is_empty() {
        block(out, b"././@PaxHeader", b'x', facts, records.len() as u64, b"");
        let length = records.len().next_multiple_of(BLOCK);
        records.resize(length, 0);
        out.extend_from_slice(&records);
    }
    block(out, path, kind, facts, size, target);
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    let mut text = format!("{length} {key}=").into_bytes();
    text.extend_from_slice(value);
    text.push(b'\n');
    text
}

fn block(out: &mut Vec<u8>, path: &[u8], kind: u8, facts: &Stat, size: u64, target: &[u8]) {
    let mut block = [0u8; BLOCK];
    let name = &path[..path.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    octal(&mut block[100..108], u64::from(facts.st_mode & 0o7777));
    octal(&mut block[108..116], u64::from(facts.st_uid));
    octal(&mut block[116..124], u64::from(facts.st_gid));
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], u64::try_from(facts.st_mtime).unwrap_or(0));
    block[148..156].fill(b' ');
    block[156] = kind;
    let link = &target[..target.len().min(100)];
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    out.extend_from_slice(&block);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        assert_eq!(record("path", b"ab"), b"11 path=ab\n");
        for length in 80..120 {
            let text = record("path", &vec![b'a'; length]);
            let said: usize =
                String::from_utf8_lossy(&text).split(' ').next().unwrap().parse().unwrap();
            assert_eq!(said, text.len());
        }
    }
}
