//! Calls that make files. Each goes beneath the root and through no link, whatever the archive made
//! before, although the worker's root is all that it could reach anyway.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid, openat2,
};
use rustix::io::Errno;

use super::marker;
use super::name::{Name, c_string, refused, show};
use super::remove;
use super::task::{Form, Unpack};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind, full};

/// No magic links, no links at all, nothing above.
const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_SYMLINKS);
/// With [`BENEATH`], so that a link is said to be one.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// How often the disk's free space is looked at, in bytes written.
const LOOK_EVERY: u64 = 16 << 20;

/// Seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// A layer that is being unpacked.
pub(super) struct Tree {
    root: OwnedFd,
    task: Unpack,
    /// The directory that was used last, with its name.
    last: Option<(Vec<u8>, OwnedFd)>,
    /// Times of directories, which change with every file that is made in them.
    times: Vec<(Vec<u8>, Time)>,
    written: u64,
    looked: u64,
}

/// Where something is to be made.
pub(super) struct Place {
    pub directory: OwnedFd,
    pub name: CString,
}

impl Place {
    pub(super) fn stat(&self) -> Result<Option<Stat>> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno).tried("look at an entry"),
        }
    }
}

impl Tree {
    pub(super) fn new(root: OwnedFd, task: &Unpack) -> Self {
        let looked = LOOK_EVERY;
        Self { root, task: task.clone(), last: None, times: Vec::new(), written: 0, looked }
    }

    /// Bytes of content so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Of its archive.
    pub(super) fn form(&self) -> Form {
        self.task.form
    }

    /// Whether owners and file capabilities can be kept.
    pub(super) fn keeps_owners(&self) -> bool {
        self.task.last_id.is_some()
    }

    /// The directory of a name, made with all above it where they are missing.
    pub(super) fn place(&mut self, name: &Name) -> Result<Place> {
        let own = c_string(&name.own)?;
        if self.last.as_ref().is_none_or(|(path, _)| *path != name.above) {
            let directory = match self.open(&name.above) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::NOTDIR) => self.make_all(name)?,
                Err(Errno::LOOP | Errno::XDEV) => return Err(through_link(name)),
                Err(errno) => return Err(errno).tried("open a directory"),
            };
            self.last = Some((name.above.clone(), directory));
        }
        let Some((_, directory)) = &self.last else {
            return Err(TemplateError::internal("no directory"));
        };
        let directory = directory.try_clone().tried("hold a directory")?;
        Ok(Place { directory, name: own })
    }

    /// The place of something that is there, or is not; nothing is made.
    pub(super) fn find(&self, name: &Name) -> Result<Option<Place>> {
        match self.open(&name.above) {
            Ok(directory) => Ok(Some(Place { directory, name: c_string(&name.own)? })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(Errno::LOOP | Errno::XDEV) => Err(through_link(name)),
            Err(errno) => Err(errno).tried("open a directory"),
        }
    }

    fn open(&self, path: &[u8]) -> std::result::Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        openat2(&self.root, path, DIRECTORY, Mode::empty(), BENEATH)
    }

    fn make_all(&mut self, name: &Name) -> Result<OwnedFd> {
        let mut at = self.root.try_clone().tried("hold the root")?;
        let mut path: Vec<u8> = Vec::new();
        for part in name.above.split(|byte| *byte == b'/') {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(part);
            let place = Place { directory: at, name: c_string(part)? };
            // An archive that does not say what it is like: what such directories are everywhere.
            let mode = match path.as_slice() {
                b"tmp" | b"var/tmp" => 0o1777,
                b"root" => 0o700,
                _ => 0o755,
            };
            at = match rustix::fs::mkdirat(&place.directory, &place.name, Mode::from_raw_mode(mode))
            {
                Ok(()) => open_directory(&place)?,
                Err(Errno::EXIST) => match open_child(&place) {
                    Ok(directory) => directory,
                    Err(Errno::LOOP) => return Err(through_link(name)),
                    Err(Errno::NOTDIR) => match place.stat()? {
                        Some(stat) if marker::is_whiteout(&stat) => {
                            self.directory_over(&place, &stat)?
                        }
                        _ => {
                            return Err(refused(
                                &name.full(),
                                &format!("`{}` is not a directory", show(&path)),
                            ));
                        }
                    },
                    Err(errno) => return Err(errno).tried("open a directory"),
                },
                Err(errno) => return Err(errno).tried("make a directory"),
            };
        }
        Ok(at)
    }

    /// A directory in the place of a whiteout or of another file of the same layer.
    fn directory_over(&mut self, place: &Place, old: &Stat) -> Result<OwnedFd> {
        remove::file(&place.directory, &place.name).tried("replace an entry")?;
        rustix::fs::mkdirat(&place.directory, &place.name, Mode::from_raw_mode(0o755))
            .tried("make a directory")?;
        let made = open_directory(place)?;
        if marker::is_whiteout(old) {
            // What lower layers have under this name stays hidden.
            marker::set_opaque(&made)?;
        }
        Ok(made)
    }

    /// A directory, made unless it is there.
    pub(super) fn directory(&mut self, place: &Place) -> Result<OwnedFd> {
        match rustix::fs::mkdirat(&place.directory, &place.name, Mode::from_raw_mode(0o700)) {
            Ok(()) => open_directory(place),
            Err(Errno::EXIST) => match place.stat()? {
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                    open_directory(place)
                }
                Some(stat) => self.directory_over(place, &stat),
                None => Err(TemplateError::internal("an entry vanished")),
            },
            Err(errno) => Err(errno).tried("make a directory"),
        }
    }

    /// The root, for its own entry.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Makes something that is no directory; of several entries of one name the last one counts.
    pub(super) fn fresh<T>(
        &mut self,
        place: &Place,
        make: impl Fn(&OwnedFd, &CStr) -> std::result::Result<T, Errno>,
    ) -> Result<T> {
        match make(&place.directory, &place.name) {
            Err(Errno::EXIST) => {
                // It may be, or hold, the directory that is remembered.
                self.last = None;
                remove::entry(&place.directory, &place.name)?;
                make(&place.directory, &place.name).tried("make an entry")
            }
            other => other.tried("make an entry"),
        }
    }

    /// An empty file to write to.
    pub(super) fn file(&mut self, place: &Place) -> Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |directory: &OwnedFd, name: &CStr| {
            openat2(directory, name, flags, Mode::from_raw_mode(0o600), BENEATH)
        };
        self.fresh(place, make).map(File::from)
    }

    /// Counts content, with holes, before it is written.
    pub(super) fn count(&mut self, bytes: u64) -> Result<()> {
        self.written = self.written.saturating_add(bytes);
        if self.written > self.task.limits.bytes {
            return Err(TemplateError::new(
                TemplateErrorKind::TooLarge,
                format!("the layer's files have more than {} bytes", self.task.limits.bytes),
            ));
        }
        Ok(())
    }

    /// Looks now and then, in steps of what was really written, whether the disk has room.
    pub(super) fn look(&mut self, bytes: u64) -> Result<()> {
        self.looked = self.looked.saturating_add(bytes);
        if self.looked < LOOK_EVERY {
            return Ok(());
        }
        self.looked = 0;
        let facts = rustix::fs::fstatfs(&self.root).tried("look at the disk")?;
        let block = u64::try_from(facts.f_bsize).unwrap_or(0);
        if facts.f_bavail.saturating_mul(block) < self.task.limits.reserve_bytes {
            return Err(full());
        }
        Ok(())
    }

    /// The ids of an entry, where they can be kept.
    pub(super) fn ids(&self, path: &[u8], uid: u64, gid: u64) -> Result<Option<(Uid, Gid)>> {
        let Some(last) = self.task.last_id else { return Ok(None) };
        let check = |id: u64, what: &str| match u32::try_from(id) {
            Ok(id) if id <= last => Ok(id),
            _ => Err(TemplateError::new(
                TemplateErrorKind::Ids,
                format!(
                    "the layer's entry `{}` belongs to {what} {id}; sandboxes have the ids 0 to \
                     {last}",
                    show(path)
                ),
            )),
        };
        Ok(Some((Uid::from_raw(check(uid, "user")?), Gid::from_raw(check(gid, "group")?))))
    }

    /// The time of a directory, to be set when nothing more is made in it.
    pub(super) fn directory_time(&mut self, path: Vec<u8>, time: Time) {
        self.times.push((path, time));
    }

    /// Sets the times of directories.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.last = None;
        for (path, time) in std::mem::take(&mut self.times) {
            // A later entry may have put something else there.
            if let Ok(directory) = self.open(&path) {
                rustix::fs::futimens(&directory, &timestamps(time)).tried("set a time")?;
            }
        }
        Ok(())
    }
}

fn through_link(name: &Name) -> TemplateError {
    refused(&name.full(), "it goes through a symbolic link of the same layer")
}

fn open_child(place: &Place) -> std::result::Result<OwnedFd, Errno> {
    openat2(&place.directory, &place.name, DIRECTORY, Mode::empty(), BENEATH)
}

fn open_directory(place: &Place) -> Result<OwnedFd> {
    open_child(place).tried("open a directory")
}

pub(super) fn timestamps((seconds, nanos): Time) -> Timestamps {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}
