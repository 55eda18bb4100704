//! A root file system: an archive of one, or a directory, which becomes an archive as its caller sees it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use holm_runtime::archive::{self as writer, Head};
use holm_runtime::confined;
use holm_runtime::ids::IdMap;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat};

use super::assemble::{Content, Image, Source};
use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::import::open_file;
use crate::template::TemplateConfig;
use crate::unpack::Packing;

/// Directories in directories; each costs a descriptor.
const MAX_DEPTH: usize = 200;
/// Longest value of an extended attribute.
const MAX_VALUE: usize = 64 << 10;

/// An archive.
pub(super) fn file(path: &Path, length: u64, packing: Packing) -> Image<'_> {
    let open = move || {
        let file = open_file(path).map_err(|error| unreadable(path, &error))?;
        let content: Box<dyn io::Read> = Box::new(file);
        Ok((content, length))
    };
    image(packing, Content::Blob(Box::new(open)), "rootfs archive")
}

/// A directory.
pub(super) fn directory(path: &Path) -> Image<'static> {
    image(Packing::Plain, Content::Directory(path.to_owned()), "rootfs directory")
}

fn image<'a>(packing: Packing, content: Content<'a>, source: &str) -> Image<'a> {
    let source_of = Source { packing, digest: None, size: None, diff_id: None, content };
    Image { layers: vec![source_of], config: TemplateConfig::default(), source: source.to_owned() }
}

fn unreadable(path: &Path, error: &io::Error) -> TemplateError {
    TemplateError::new(
        TemplateErrorKind::NotAnImage,
        format!("`{}` cannot be read: {error}", path.display()),
    )
}

/// Writes a directory as an archive. One that takes no more has its own reason, which is not ours.
pub(super) fn write(path: &Path, out: &mut dyn Write) -> Result<()> {
    let mut walk = Walk { out, seen: HashMap::new(), ids: confined::id_map(), device: 0 };
    match walk.all(path) {
        Ok(()) => Ok(()),
        Err((_, error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err((name, error)) => {
            let name = String::from_utf8_lossy(&name).into_owned();
            Err(unreadable(&path.join(name.trim_start_matches('/')), &error))
        }
    }
}

struct Walk<'a> {
    out: &'a mut dyn Write,
    /// Files with several names, and the first of these.
    seen: HashMap<(u64, u64), Vec<u8>>,
    ids: IdMap,
    /// Other file systems are not entered.
    device: u64,
}

struct Level {
    directory: OwnedFd,
    path: Vec<u8>,
    names: Vec<CString>,
}

type Step<T> = std::result::Result<T, (Vec<u8>, io::Error)>;

impl Walk<'_> {
    fn all(&mut self, path: &Path) -> Step<()> {
        let at = |error: io::Error| (Vec::new(), error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, path, flags, Mode::empty()).map_err(|errno| at(errno.into()))?;
        let facts = rustix::fs::fstat(&top).map_err(|errno| at(errno.into()))?;
        self.device = facts.st_dev;
        let xattrs = xattrs(&top).map_err(at)?;
        self.head(b"./", b'5', &facts, b"", &xattrs).map_err(at)?;
        let mut levels = vec![Level {
            names: writer::names(&top).map_err(at)?,
            directory: top,
            path: Vec::new(),
        }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                levels.pop();
                continue;
            };
            let mut path = level.path.clone();
            path.extend_from_slice(name.to_bytes());
            let below = self.entry(&level.directory, &name, &path);
            let below = below.map_err(|error| (path.clone(), error))?;
            if let Some(directory) = below {
                if levels.len() >= MAX_DEPTH {
                    let text = format!("directories nest more than {MAX_DEPTH} deep");
                    return Err((path, io::Error::other(text)));
                }
                let names = writer::names(&directory).map_err(|error| (path.clone(), error))?;
                path.push(b'/');
                levels.push(Level { directory, path, names });
            }
        }
        self.out.write_all(&writer::END).map_err(at)
    }

    /// Writes an entry. Gives it where it is a directory to be entered.
    fn entry(&mut self, above: &OwnedFd, name: &CStr, path: &[u8]) -> io::Result<Option<OwnedFd>> {
        let facts = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(facts.st_mode);
        if kind != FileType::Directory && facts.st_nlink > 1 {
            if let Some(first) = self.seen.get(&(facts.st_dev, facts.st_ino)).cloned() {
                self.head(path, b'1', &facts, &first, &[])?;
                return Ok(None);
            }
            self.seen.insert((facts.st_dev, facts.st_ino), path.to_vec());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match kind {
            FileType::RegularFile => {
                let file = openat(above, name, flags, Mode::empty())?;
                let facts = rustix::fs::fstat(&file)?;
                let xattrs = xattrs(&file)?;
                self.head(path, b'0', &facts, b"", &xattrs)?;
                self.content(File::from(file), u64::try_from(facts.st_size).unwrap_or(0))?;
            }
            FileType::Directory => {
                let directory = openat(above, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                let facts = rustix::fs::fstat(&directory)?;
                let xattrs = xattrs(&directory)?;
                self.head(&[path, b"/"].concat(), b'5', &facts, b"", &xattrs)?;
                return Ok((facts.st_dev == self.device).then_some(directory));
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(above, name, Vec::new())?;
                self.head(path, b'2', &facts, target.to_bytes(), &[])?;
            }
            FileType::Fifo => self.head(path, b'6', &facts, b"", &[])?,
            // Sockets have no form in an archive, and devices none in a template.
            _ => {}
        }
        Ok(None)
    }

    fn head(
        &mut self,
        path: &[u8],
        kind: u8,
        facts: &Stat,
        link: &[u8],
        xattrs: &[(Vec<u8>, Vec<u8>)],
    ) -> io::Result<()> {
        let size = if kind == b'0' { u64::try_from(facts.st_size).unwrap_or(0) } else { 0 };
        let (uid, gid) = inside(self.ids, facts.st_uid, facts.st_gid);
        let mode = facts.st_mode & 0o7777;
        let mtime = (facts.st_mtime, 0);
        let head = Head { path, kind, mode, uid, gid, size, mtime, link, xattrs, sparse: None };
        self.out.write_all(&writer::head(&head))
    }

    fn content(&mut self, file: File, size: u64) -> io::Result<()> {
        let copied = io::copy(&mut file.take(size), &mut self.out)?;
        if copied < size {
            return Err(io::Error::other("it became shorter while it was read"));
        }
        let mut rest = Vec::new();
        writer::pad(&mut rest, size);
        self.out.write_all(&rest)
    }
}

/// What an ordinary user's files are in the user's sandboxes: own ones are root's, those of subordinate
/// ids whose they are there.
fn inside(ids: IdMap, uid: u32, gid: u32) -> (u32, u32) {
    let IdMap::Subordinate { user, start, len } = ids else { return (uid, gid) };
    let one = |id: u32, own: u32, start: u32| {
        if id == own {
            0
        } else if (start..start.saturating_add(len)).contains(&id) {
            id - start + 1
        } else {
            id
        }
    };
    (one(uid, user.0, start.0), one(gid, user.1, start.1))
}

/// Those that are kept.
fn xattrs(file: &OwnedFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0; MAX_VALUE];
    let length = match rustix::fs::flistxattr(file, list.as_mut_slice()) {
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if !name.starts_with(b"user.") && name != b"security.capability" {
            continue;
        }
        let mut value = vec![0; MAX_VALUE];
        let length = rustix::fs::fgetxattr(file, name, value.as_mut_slice())?;
        value.truncate(length);
        found.push((name.to_vec(), value));
    }
    Ok(found)
}
