//! Entries of the archive, from what the overlays have written. Everything here is hostile: names of
//! any bytes, links to anywhere, depth, holes. Nothing is followed, and every name is one part below an
//! open directory.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, openat, seek};
use rustix::io::Errno;

use super::{Packed, holes};
use crate::archive::{self, Head};
use crate::driver::DriverErrorKind;
use crate::failure::Failure;

/// Directories in directories; each costs a descriptor.
const MAX_DEPTH: usize = 900;
/// Longest name in all, as whoever unpacks it has it.
const MAX_PATH: usize = 4000;
/// Longest value of an extended attribute, and longest list of their names.
const MAX_VALUE: usize = 64 << 10;
/// Most bytes of an entry's attributes, and most attributes: as whoever unpacks them has it.
const MAX_XATTRS: (usize, usize) = (768 << 10, 512);
/// Written to the pipe at once.
const PART: usize = 256 << 10;

/// Upper directories of the root: of one on layers, and of one on the host's programs alone.
const ROOTS: [&str; 2] = ["image", "root"];
/// What is beside the upper directories of the host's trees.
const OTHERS: [&[u8]; 3] = [b"image", b"root", b"lost+found"];
/// What every sandbox is given anew.
const OWN: [&[u8]; 4] =
    [b"etc/hostname", b"etc/hosts", b"etc/resolv.conf", b"etc/holm-ca-certificates.crt"];

/// The archive on its way.
pub(super) struct Walk<W: Write> {
    out: io::BufWriter<W>,
    /// Files with several names, and the first of these.
    seen: HashMap<(u64, u64), Vec<u8>>,
    packed: Packed,
    part: Vec<u8>,
}

/// What went wrong at which name.
pub(super) struct Failed {
    path: Vec<u8>,
    error: io::Error,
    /// What may be shown.
    reason: Option<&'static str>,
}

type Step<T> = Result<T, Failed>;

struct Level {
    directory: OwnedFd,
    /// With a slash at its end, or empty.
    path: Vec<u8>,
    names: Vec<CString>,
}

impl<W: Write> Walk<W> {
    pub(super) fn new(out: W) -> Self {
        let out = io::BufWriter::with_capacity(PART, out);
        Self { out, seen: HashMap::new(), packed: Packed::default(), part: vec![0; PART] }
    }

    pub(super) fn packed(&self) -> Packed {
        self.packed
    }

    /// Writes the whole archive of what is on a disk.
    pub(super) fn all(&mut self, disk: &OwnedFd) -> Step<()> {
        let at = |error: Errno| failed(b"", error.into());
        let root = ROOTS.iter().find_map(|name| open_upper(disk, name.as_bytes()).transpose());
        let root = root.unwrap_or(Err(Errno::NOENT)).map_err(at)?;
        let mut trees = archive::names(disk).map_err(|error| failed(b"", error))?;
        trees.retain(|name| !OTHERS.contains(&name.to_bytes()));
        self.tree(&root, b"", &trees)?;
        for name in trees.iter().rev() {
            let Some(upper) = open_upper(disk, name.to_bytes()).map_err(at)? else { continue };
            // What nobody has written to is as the host has it.
            if !archive::names(&upper).map_err(|error| failed(name.to_bytes(), error))?.is_empty() {
                self.tree(&upper, &[name.to_bytes(), b"/"].concat(), &[])?;
            }
        }
        let end = self.out.write_all(&archive::END).and_then(|()| self.out.flush());
        end.map_err(|error| failed(b"", error))
    }

    /// One upper directory, whose names begin with `prefix`. `without`: names that others have.
    fn tree(&mut self, top: &OwnedFd, prefix: &[u8], without: &[CString]) -> Step<()> {
        let at = |error: io::Error| failed(prefix, error);
        let facts = rustix::fs::fstat(top).map_err(|errno| at(errno.into()))?;
        let own = if prefix.is_empty() { b"./" } else { prefix };
        self.directory(own, &facts, top).map_err(at)?;
        let mut below = archive::names(top).map_err(at)?;
        below.retain(|name| !without.contains(name));
        let directory =
            rustix::io::fcntl_dupfd_cloexec(top, 3).map_err(|errno| at(errno.into()))?;
        let mut levels = vec![Level { directory, path: prefix.to_vec(), names: below }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let mut path = [level.path.as_slice(), name.to_bytes()].concat();
            if path.len() > MAX_PATH {
                return Err(refused(path, "its name is too long"));
            }
            let Some(directory) = self.entry(&level.directory, &name, &path)? else { continue };
            if levels.len() >= MAX_DEPTH {
                return Err(refused(path, "directories nest too deeply there"));
            }
            let names = archive::names(&directory).map_err(|error| failed(&path, error))?;
            path.push(b'/');
            levels.push(Level { directory, path, names });
        }
        Ok(())
    }

    /// Writes an entry. Gives it where it is a directory to be entered. What is gone by now was not
    /// there: that can be where nothing could be stopped.
    fn entry(&mut self, above: &OwnedFd, name: &CStr, path: &[u8]) -> Step<Option<OwnedFd>> {
        if OWN.contains(&path) {
            return Ok(None);
        }
        match self.try_entry(above, name, path) {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if is_too_many(&error) => {
                Err(refused(path.to_vec(), "it has too many extended attributes"))
            }
            Err(error) => Err(failed(path, error)),
        }
    }

    fn try_entry(
        &mut self,
        above: &OwnedFd,
        name: &CStr,
        path: &[u8],
    ) -> io::Result<Option<OwnedFd>> {
        let facts = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(facts.st_mode);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if kind == FileType::Directory {
            let directory = openat(above, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            self.directory(&[path, b"/"].concat(), &facts, &directory)?;
            return Ok(Some(directory));
        }
        // A whiteout may have several names as well; each is one by itself.
        if facts.st_nlink > 1
            && kind != FileType::CharacterDevice
            && let Some(first) = self.seen.get(&(facts.st_dev, facts.st_ino)).cloned()
        {
            self.head(path, b'1', &facts, 0, &first, &[])?;
            return Ok(None);
        }
        match kind {
            FileType::RegularFile => {
                let file = openat(above, name, flags, Mode::empty())?;
                self.file(path, &file)?;
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(above, name, Vec::new())?;
                self.head(path, b'2', &facts, 0, target.to_bytes(), &[])?;
            }
            FileType::Fifo => self.head(path, b'6', &facts, 0, b"", &[])?,
            FileType::CharacterDevice if facts.st_rdev == 0 => {
                self.head(path, b'3', &facts, 0, b"", &[])?;
            }
            // Devices cannot be made inside.
            _ => {
                self.packed.left_out += 1;
                return Ok(None);
            }
        }
        if facts.st_nlink > 1 && kind != FileType::CharacterDevice {
            self.seen.insert((facts.st_dev, facts.st_ino), path.to_vec());
        }
        Ok(None)
    }

    fn directory(&mut self, path: &[u8], facts: &Stat, directory: &OwnedFd) -> io::Result<()> {
        let xattrs = xattrs(directory)?;
        self.head(path, b'5', facts, 0, b"", &xattrs)
    }

    fn file(&mut self, path: &[u8], file: &OwnedFd) -> io::Result<()> {
        // Asked anew, of what is open.
        let facts = rustix::fs::fstat(file)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(io::ErrorKind::NotFound.into());
        }
        let size = u64::try_from(facts.st_size).unwrap_or(0);
        let xattrs = xattrs(file)?;
        let is_dense = u64::try_from(facts.st_blocks).unwrap_or(0).saturating_mul(512) >= size;
        let mut pieces = if is_dense { vec![(0, size)] } else { holes::pieces(file, size)? };
        let bytes = pieces.iter().map(|(_, length)| length).sum();
        self.packed.bytes += bytes;
        if bytes == size {
            self.head(path, b'0', &facts, size, b"", &xattrs)?;
        } else {
            // Where the last bytes are not at the end, other programs want to be told the end.
            if pieces.last().is_none_or(|(at, length)| at + length < size) {
                pieces.push((size, 0));
            }
            let map = archive::map(&pieces);
            let stored = map.len() as u64 + bytes;
            self.sparse_head(path, &facts, (stored, size), &xattrs)?;
            self.out.write_all(&map)?;
        }
        for (offset, length) in pieces {
            seek(file, SeekFrom::Start(offset))?;
            self.content(file, length)?;
        }
        let mut rest = Vec::new();
        archive::pad(&mut rest, bytes);
        self.out.write_all(&rest)
    }

    /// So many bytes; zeros where the file has become shorter.
    fn content(&mut self, file: &OwnedFd, length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(PART).min(PART);
            let part = &mut self.part[..part];
            let mut read = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *part))?;
            if read == 0 {
                part.fill(0);
                read = part.len();
            }
            self.out.write_all(&part[..read])?;
            left -= read as u64;
        }
        Ok(())
    }

    fn head(
        &mut self,
        path: &[u8],
        kind: u8,
        facts: &Stat,
        size: u64,
        link: &[u8],
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> io::Result<()> {
        self.packed.entries += 1;
        let head = Head { kind, size, link, xattrs, ..of(path, facts) };
        self.out.write_all(&archive::head(&head))
    }

    fn sparse_head(
        &mut self,
        path: &[u8],
        facts: &Stat,
        (stored, length): (u64, u64),
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> io::Result<()> {
        self.packed.entries += 1;
        let head =
            Head { kind: b'0', size: stored, sparse: Some(length), xattrs, ..of(path, facts) };
        self.out.write_all(&archive::head(&head))
    }
}

/// What is the same for all kinds.
fn of<'a>(path: &'a [u8], facts: &Stat) -> Head<'a> {
    Head {
        path,
        kind: 0,
        mode: facts.st_mode & 0o7777,
        uid: facts.st_uid,
        gid: facts.st_gid,
        size: 0,
        mtime: (facts.st_mtime, u32::try_from(facts.st_mtime_nsec).unwrap_or(0)),
        link: b"",
        xattrs: &[],
        sparse: None,
    }
}

/// An overlay's upper directory. None where there is none of that name.
fn open_upper(disk: &OwnedFd, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Both directories are ours: nobody inside sees them.
    let open = |at: &OwnedFd, name: &[u8]| openat(at, name, flags, Mode::empty());
    match open(disk, name).and_then(|overlay| open(&overlay, b"u")) {
        Ok(upper) => Ok(Some(upper)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Those that are kept: the user's own, a file's capabilities, and of the overlay's that a directory
/// hides what is below it.
fn xattrs(file: impl AsFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0; MAX_VALUE];
    let length = match rustix::fs::flistxattr(&file, list.as_mut_slice()) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    let mut bytes = 0;
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let overlays = name.starts_with(b"user.overlay.");
        let kept = match overlays {
            true => name == b"user.overlay.opaque",
            false => name.starts_with(b"user.") || name == b"security.capability",
        };
        if !kept {
            continue;
        }
        let mut value = vec![0; MAX_VALUE];
        let length = match rustix::fs::fgetxattr(&file, name, value.as_mut_slice()) {
            // Taken away meanwhile.
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        value.truncate(length);
        if overlays && value != b"y" {
            continue;
        }
        bytes += name.len() + value.len() + 64;
        found.push((name.to_vec(), value));
        if bytes > MAX_XATTRS.0 || found.len() > MAX_XATTRS.1 {
            return Err(io::Error::other(TooMany));
        }
    }
    // The order in which the kernel lists them says nothing.
    found.sort_unstable();
    Ok(found)
}

#[derive(Debug, thiserror::Error)]
#[error("too many extended attributes")]
struct TooMany;

fn failed(path: &[u8], error: io::Error) -> Failed {
    Failed { path: path.to_vec(), error, reason: None }
}

fn refused(path: Vec<u8>, reason: &'static str) -> Failed {
    Failed { path, error: io::Error::other(reason), reason: Some(reason) }
}

impl Failed {
    pub(super) fn into_failure(self) -> Failure {
        let path: String = String::from_utf8_lossy(&self.path)
            .chars()
            .take(200)
            .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c })
            .collect();
        let text = match self.reason {
            Some(reason) => format!(
                "The sandbox's files cannot be kept because of `/{path}`: {reason}. Remove it, and \
                 try again."
            ),
            None => "The sandbox's files could not be read; the log has the reason.".to_owned(),
        };
        let kind = match self.reason {
            Some(_) => DriverErrorKind::Unkeepable,
            None => DriverErrorKind::Internal,
        };
        Failure::of(kind, text).because(format!("{path}: {}", self.error))
    }
}

/// Whether that is what was wrong.
fn is_too_many(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref::<TooMany>()).is_some()
}
