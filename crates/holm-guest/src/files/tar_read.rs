//! Unpacking a tar stream below a directory, as the acting user.
//!
//! Names stay below the directory: absolute ones and `..` are refused, and no part of a name may
//! be a symbolic link, whether the archive made it or it was there. What was unpacked before an
//! error stays; the file at hand does not.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, openat};
use rustix::io::Errno;

use super::path::show;
use super::tar::BLOCK;
use super::tar_field::{broken, number, trimmed};
use super::write::{direct, make_directories};
use crate::errors::{self, Result, invalid, shorten};

/// Most bytes of a pax record block or a long name.
const MAX_EXTRA: u64 = 256 << 10;

enum At {
    Header,
    /// Records or a long name for the next entry: what is still to come, and its padding.
    Extra {
        kind: u8,
        left: u64,
        padding: u64,
        bytes: Vec<u8>,
    },
    /// A file's content.
    Content {
        file: Option<Output>,
        left: u64,
        padding: u64,
    },
    Padding(u64),
    End,
}

struct Output {
    file: File,
    directory: OwnedFd,
    name: CString,
    mode: u32,
    owner: (u32, u32),
    mtime: i64,
}

/// Takes the stream.
pub struct Consumer {
    root: OwnedFd,
    shown: String,
    /// Root gives files the owners of the archive.
    chown: bool,
    block: Vec<u8>,
    extra: HashMap<String, Vec<u8>>,
    at: At,
    total: u64,
}

struct Entry {
    path: Vec<u8>,
    kind: u8,
    mode: u32,
    owner: (u32, u32),
    size: u64,
    mtime: i64,
    target: Vec<u8>,
}

impl Consumer {
    /// Unpacks below `path`, which is made where it is missing.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn new(path: &CStr, chown: bool) -> Result<Self> {
        let shown = show(path);
        let failed = |error| errors::file("unpack into", &shown, error);
        let path = &direct(path);
        make_directories(path).map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        let (block, extra) = (Vec::new(), HashMap::new());
        Ok(Self { root, shown, chown, block, extra, at: At::Header, total: 0 })
    }

    /// Takes what came.
    ///
    /// # Errors
    /// When the archive is broken, leads outside, or cannot be unpacked.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let take = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            match &mut self.at {
                At::End => return Ok(()),
                At::Header => {
                    let room = BLOCK - self.block.len();
                    let (part, rest) = bytes.split_at(room.min(bytes.len()));
                    self.block.extend_from_slice(part);
                    bytes = rest;
                    if self.block.len() == BLOCK {
                        let block = std::mem::take(&mut self.block);
                        self.at = self.header(&block)?;
                        self.settle()?;
                    }
                }
                At::Extra { left, bytes: kept, .. } => {
                    let (part, rest) = bytes.split_at(take(*left));
                    kept.extend_from_slice(part);
                    *left -= part.len() as u64;
                    bytes = rest;
                    self.settle()?;
                }
                At::Content { file, left, .. } => {
                    let (part, rest) = bytes.split_at(take(*left));
                    if let Some(output) = file {
                        let wrote = output.file.write_all(part);
                        wrote.map_err(|error| {
                            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                            errors::file("write", &show(&output.name), error)
                        })?;
                    }
                    self.total += part.len() as u64;
                    *left -= part.len() as u64;
                    bytes = rest;
                    self.settle()?;
                }
                At::Padding(left) => {
                    let (part, rest) = bytes.split_at(take(*left));
                    *left -= part.len() as u64;
                    bytes = rest;
                    self.settle()?;
                }
            }
        }
        Ok(())
    }

    /// Goes on where a state has all of its bytes.
    fn settle(&mut self) -> Result<()> {
        loop {
            let next = match &mut self.at {
                At::Extra { kind, left: 0, padding, bytes } => {
                    let (kind, padding, bytes) = (*kind, *padding, std::mem::take(bytes));
                    self.remember(kind, &bytes)?;
                    At::Padding(padding)
                }
                At::Content { file, left: 0, padding } => {
                    let padding = *padding;
                    if let Some(output) = file.take() {
                        self.close(output)?;
                    }
                    At::Padding(padding)
                }
                At::Padding(0) => At::Header,
                _ => return Ok(()),
            };
            self.at = next;
        }
    }

    /// The stream has ended. Gives how many bytes of content there were.
    ///
    /// # Errors
    /// When it ended inside an entry.
    pub fn finish(self) -> Result<u64> {
        match &self.at {
            At::End => Ok(self.total),
            At::Header if self.block.is_empty() => Ok(self.total),
            At::Padding(_) => Ok(self.total),
            _ => Err(broken("it ends in the middle of an entry")),
        }
    }

    fn remember(&mut self, kind: u8, bytes: &[u8]) -> Result<()> {
        match kind {
            b'L' => drop(self.extra.insert("path".to_owned(), trimmed(bytes))),
            b'K' => drop(self.extra.insert("linkpath".to_owned(), trimmed(bytes))),
            b'x' => {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let space = rest.iter().position(|byte| *byte == b' ');
                    let length = space
                        .and_then(|at| std::str::from_utf8(&rest[..at]).ok()?.parse::<usize>().ok())
                        .filter(|length| *length <= rest.len())
                        .ok_or_else(|| broken("a pax record has no length"))?;
                    let start = space.unwrap_or(0) + 1;
                    if length <= start {
                        return Err(broken("a pax record has no content"));
                    }
                    let text = &rest[start..length - 1];
                    if let Some(at) = text.iter().position(|byte| *byte == b'=') {
                        let key = String::from_utf8_lossy(&text[..at]).into_owned();
                        self.extra.insert(key, text[at + 1..].to_vec());
                    }
                    rest = &rest[length..];
                }
            }
            // Global records say nothing that matters here.
            _ => {}
        }
        Ok(())
    }

    fn header(&mut self, block: &[u8]) -> Result<At> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(At::End);
        }
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
            .sum();
        if number(&block[148..156])? != sum {
            return Err(broken("a checksum does not match"));
        }
        let kind = block[156];
        let size = number(&block[124..136])?;
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        if matches!(kind, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_EXTRA {
                return Err(broken("a name or record is too long"));
            }
            return Ok(At::Extra { kind, left: size, padding, bytes: Vec::new() });
        }
        let entry = self.entry(block, kind, size)?;
        let padding = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
        let file = self.make(&entry)?;
        let left = if matches!(kind, b'0' | 0 | b'7') { entry.size } else { 0 };
        Ok(At::Content { file, left, padding: if left == 0 { 0 } else { padding } })
    }

    fn entry(&mut self, block: &[u8], kind: u8, size: u64) -> Result<Entry> {
        let extra = std::mem::take(&mut self.extra);
        let mut path = trimmed(&block[..100]);
        if &block[257..262] == b"ustar" && block[345] != 0 && block[263] == b'0' {
            path = [trimmed(&block[345..500]), vec![b'/'], path].concat();
        }
        let decimal = |key: &str| {
            let text = extra.get(key).and_then(|value| std::str::from_utf8(value).ok());
            text.and_then(|text| text.split('.').next()?.parse::<u64>().ok())
        };
        let id = |field: &[u8], key: &str| -> Result<u32> {
            let value = decimal(key).map_or_else(|| number(field), Ok)?;
            u32::try_from(value).map_err(|_| broken("an owner's number is too large"))
        };
        let owner = (id(&block[108..116], "uid")?, id(&block[116..124], "gid")?);
        let mtime = decimal("mtime").map_or_else(|| number(&block[136..148]), Ok)?;
        Ok(Entry {
            kind,
            mode: u32::try_from(number(&block[100..108])? & 0o777).unwrap_or(0o644),
            owner,
            size: decimal("size").unwrap_or(size),
            mtime: i64::try_from(mtime).unwrap_or(0),
            target: extra.get("linkpath").cloned().unwrap_or_else(|| trimmed(&block[157..257])),
            path: extra.get("path").cloned().unwrap_or(path),
        })
    }

    /// Makes an entry. Gives the file whose content follows.
    fn make(&self, entry: &Entry) -> Result<Option<Output>> {
        let shown = String::from_utf8_lossy(&entry.path).into_owned();
        let Some((directory, name)) = self.locate(&entry.path, &shown)? else { return Ok(None) };
        let failed = |error| errors::file("unpack", &shown, error);
        let mode = Mode::from_raw_mode(entry.mode);
        match entry.kind {
            b'5' => {
                match rustix::fs::mkdirat(&directory, &name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // A directory that its owner may not read is still made; its mode was given above.
                if let Ok(made) = openat(&directory, &name, flags, Mode::empty()) {
                    rustix::fs::fchmod(&made, mode).map_err(failed)?;
                }
                self.own(&directory, &name, entry.owner).map_err(failed)?;
                return Ok(None);
            }
            b'0' | 0 | b'7' | b'1' | b'2' | b'6' => {}
            _ => {
                return Err(invalid(format!(
                    "{} is of a kind that is not unpacked",
                    shorten(&shown)
                )));
            }
        }
        match rustix::fs::unlinkat(&directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        match entry.kind {
            b'2' => {
                let target =
                    CString::new(entry.target.clone()).map_err(|_| broken("a link holds NUL"))?;
                rustix::fs::symlinkat(&target, &directory, &name).map_err(failed)?;
                self.own(&directory, &name, entry.owner).map_err(failed)?;
            }
            b'1' => {
                let shown = String::from_utf8_lossy(&entry.target).into_owned();
                let Some((from, old)) = self.locate(&entry.target, &shown)? else {
                    return Err(broken("a hard link leads nowhere"));
                };
                rustix::fs::linkat(&from, &old, &directory, &name, AtFlags::empty())
                    .map_err(failed)?;
            }
            b'6' => {
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(&directory, &name, kind, mode, 0).map_err(failed)?;
            }
            _ => {
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let file =
                    openat(&directory, &name, flags, Mode::from_raw_mode(0o600)).map_err(failed)?;
                return Ok(Some(Output {
                    file: File::from(file),
                    directory,
                    name,
                    mode: entry.mode,
                    owner: entry.owner,
                    mtime: entry.mtime,
                }));
            }
        }
        Ok(None)
    }

    fn own(&self, directory: &OwnedFd, name: &CStr, owner: (u32, u32)) -> rustix::io::Result<()> {
        if !self.chown {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
        rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn close(&self, output: Output) -> Result<()> {
        let done = || {
            self.own(&output.directory, &output.name, output.owner)?;
            rustix::fs::fchmod(&output.file, Mode::from_raw_mode(output.mode))?;
            let time = rustix::fs::Timespec { tv_sec: output.mtime, tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            rustix::fs::futimens(&output.file, &times)
        };
        done().map_err(|error| errors::file("unpack", &show(&output.name), error))
    }

    /// The directory and the name that a path of the archive means; `None` for the root itself.
    fn locate(&self, path: &[u8], shown: &str) -> Result<Option<(OwnedFd, CString)>> {
        let outside =
            || invalid(format!("{} leads out of {}", shorten(shown), shorten(&self.shown)));
        if path.starts_with(b"/") {
            return Err(outside());
        }
        let parts: Vec<&[u8]> =
            path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
        let Some((name, above)) = parts.split_last() else { return Ok(None) };
        if parts.contains(&&b".."[..]) {
            return Err(outside());
        }
        let failed = |error| match error {
            Errno::LOOP | Errno::NOTDIR => invalid(format!(
                "{} goes through something that is not a directory",
                shorten(shown)
            )),
            other => errors::file("unpack", shown, other),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory = rustix::io::fcntl_dupfd_cloexec(&self.root, 3).map_err(failed)?;
        for part in above {
            let part = CString::new(*part).map_err(|_| broken("a name holds NUL"))?;
            directory = match openat(&directory, &part, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    let mode = Mode::from_raw_mode(0o755);
                    rustix::fs::mkdirat(&directory, &part, mode).map_err(failed)?;
                    openat(&directory, &part, flags, Mode::empty()).map_err(failed)?
                }
                other => other.map_err(failed)?,
            };
        }
        let name = CString::new(*name).map_err(|_| broken("a name holds NUL"))?;
        Ok(Some((directory, name)))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        if let At::Content { file: Some(output), .. } = &self.at {
            // The archive ended early: half a file is worse than none.
            let _ = rustix::fs::unlinkat(&output.directory, &output.name, AtFlags::empty());
        }
    }
}
