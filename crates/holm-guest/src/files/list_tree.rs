//! `ListTree`: a sorted, paged list in bounded memory, also of a million entries.
//!
//! A directory is read in the order that the file system gives; only the smallest names after
//! the cursor are kept, as many as the page still takes. The cursor is the path of the last entry
//! relative to the listed directory, so that pages stay right while entries come and go.

use std::collections::BinaryHeap;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_wire::guest::{ListTreeRequest, ListTreeResponse, TreeEntry};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use super::path::{absolute, show};
use crate::errors::{self, Result, invalid, shorten};
use crate::state::Guest;

const DEFAULT_LIMIT: usize = 1000;
const MAX_LIMIT: usize = 10_000;
/// Levels below the listed directory.
const MAX_DEPTH: usize = 100;
/// From this level on fewer names are kept at once (and the directory is read again for more),
/// so that many levels of large directories do not add up.
const DEEP: usize = 4;
const DEEP_NAMES: usize = 256;
/// Unreadable directories that are named.
const MAX_UNREADABLE: usize = 20;

/// Stops the work of a caller that went away.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lists one page.
///
/// # Errors
/// When the directory cannot be read, or the cursor is none.
pub async fn list(guest: &Guest, request: ListTreeRequest) -> Result<ListTreeResponse> {
    let user = guest.users.find(&request.user)?;
    let path = absolute(&request.path, &guest.workdir())?;
    let after = decode_cursor(&request.after)?;
    let limit = match usize::try_from(request.limit).unwrap_or(MAX_LIMIT) {
        0 => DEFAULT_LIMIT,
        asked => asked.min(MAX_LIMIT),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let _cancel = Cancel(Arc::clone(&stop));
    let recursive = request.recursive;
    let work = move || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let root = openat(CWD, &path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOTDIR => invalid(format!("{} is not a directory", shorten(&show(&path)))),
            other => errors::file("list", &show(&path), other),
        })?;
        // One more than the page, to know whether there is a next one.
        let mut walk =
            Walk { recursive, most: limit + 1, stop, found: Vec::new(), unreadable: Vec::new() };
        let shown = show(&path);
        let shown = shown.strip_suffix('/').unwrap_or(&shown);
        walk.directory(&root, shown, &mut Vec::new(), &after)
            .map_err(|error| errors::file("list", &show(&path), error))?;
        let more = walk.found.len() > limit;
        walk.found.truncate(limit);
        let next =
            if more { walk.found.last().map(|(cursor, _)| encode_cursor(cursor)) } else { None };
        Ok(ListTreeResponse {
            entries: walk.found.into_iter().map(|(_, entry)| entry).collect(),
            next,
            unreadable: walk.unreadable,
        })
    };
    guest.files.run(&user, work).await?
}

struct Walk {
    recursive: bool,
    most: usize,
    stop: Arc<AtomicBool>,
    found: Vec<(Vec<CString>, TreeEntry)>,
    unreadable: Vec<String>,
}

impl Walk {
    fn full(&self) -> bool {
        self.found.len() >= self.most || self.stop.load(Ordering::Relaxed)
    }

    /// Adds what is in one directory (and below) after the cursor.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        shown: &str,
        above: &mut Vec<CString>,
        after: &[CString],
    ) -> rustix::io::Result<()> {
        let mut last = after.first().cloned();
        if let Some(name) =
            last.clone().filter(|name| self.recursive && is_directory(directory, name))
        {
            // The cursor is at this directory or in it: what is below may still come.
            self.below(directory, &name, shown, above, &after[1..]);
        }
        while !self.full() {
            let room = self.most - self.found.len() + 1;
            let keep = if above.len() < DEEP { room } else { room.min(DEEP_NAMES) };
            let (names, more) = smallest(directory, last.as_deref(), keep, &self.stop)?;
            for name in &names {
                if self.full() {
                    return Ok(());
                }
                let Some(entry) = describe(directory, name, shown) else { continue };
                let below = self.recursive && entry.r#type == "directory";
                above.push(name.clone());
                self.found.push((above.clone(), entry));
                above.pop();
                if below {
                    self.below(directory, name, shown, above, &[]);
                }
            }
            match names.last() {
                Some(name) if more => last = Some(name.clone()),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn below(
        &mut self,
        directory: &OwnedFd,
        name: &CStr,
        shown: &str,
        above: &mut Vec<CString>,
        after: &[CString],
    ) {
        let shown = format!("{shown}/{}", name.to_string_lossy());
        let flags = OFlags::RDONLY
            | OFlags::DIRECTORY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        let opened = if above.len() + 1 >= MAX_DEPTH {
            Err(Errno::LOOP)
        } else {
            openat(directory, name, flags, Mode::empty())
        };
        let listed = opened.and_then(|opened| {
            above.push(name.to_owned());
            let listed = self.directory(&opened, &shown, above, after);
            above.pop();
            listed
        });
        // One that went away meanwhile is not unreadable.
        if listed.is_err_and(|error| error != Errno::NOENT)
            && self.unreadable.len() < MAX_UNREADABLE
        {
            self.unreadable.push(shown);
        }
    }
}

fn is_directory(directory: &OwnedFd, name: &CStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_dir())
}

/// The `keep` smallest names after `last`, in order, and whether there are more.
fn smallest(
    directory: &OwnedFd,
    last: Option<&CStr>,
    keep: usize,
    stop: &AtomicBool,
) -> rustix::io::Result<(Vec<CString>, bool)> {
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0))?;
    let mut heap: BinaryHeap<CString> = BinaryHeap::new();
    let mut more = false;
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut reader = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut count = 0u32;
    while let Some(entry) = reader.next() {
        let entry = entry?;
        let name = entry.file_name();
        count = count.wrapping_add(1);
        if count.is_multiple_of(4096) && stop.load(Ordering::Relaxed) {
            break;
        }
        let dots = name.to_bytes() == b"." || name.to_bytes() == b"..";
        if dots || last.is_some_and(|last| name <= last) {
            continue;
        }
        if heap.len() < keep {
            heap.push(name.to_owned());
        } else {
            more = true;
            if let Some(mut largest) = heap.peek_mut()
                && name < largest.as_c_str()
            {
                *largest = name.to_owned();
            }
        }
    }
    Ok((heap.into_sorted_vec(), more))
}

fn describe(directory: &OwnedFd, name: &CStr, shown: &str) -> Option<TreeEntry> {
    let facts = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let (kind, target) = match FileType::from_raw_mode(facts.st_mode) {
        FileType::RegularFile => ("file", None),
        FileType::Directory => ("directory", None),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new()).ok();
            ("symlink", target.map(|target| target.to_string_lossy().into_owned()))
        }
        _ => ("other", None),
    };
    Some(TreeEntry {
        path: format!("{shown}/{}", name.to_string_lossy()),
        r#type: kind.to_owned(),
        size: u64::try_from(facts.st_size).unwrap_or(0),
        mode: facts.st_mode & 0o7777,
        mtime: facts.st_mtime,
        target,
    })
}

/// A cursor as text: names joined by slashes, everything but plain characters escaped.
fn encode_cursor(names: &[CString]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            text.push('/');
        }
        for byte in name.to_bytes() {
            if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/') {
                text.push(char::from(*byte));
            } else {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

fn decode_cursor(text: &str) -> Result<Vec<CString>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let bad = || invalid("`after` is not a cursor that a page before has given");
    if text.len() > 64 << 10 {
        return Err(bad());
    }
    text.split('/')
        .map(|name| {
            let mut bytes = Vec::with_capacity(name.len());
            let mut rest = name.bytes();
            while let Some(byte) = rest.next() {
                if byte == b'%' {
                    let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
                    let (high, low) = (digit().ok_or_else(bad)?, digit().ok_or_else(bad)?);
                    bytes.push(u8::try_from(high << 4 | low).map_err(|_| bad())?);
                } else {
                    bytes.push(byte);
                }
            }
            if bytes.is_empty() {
                return Err(bad());
            }
            CString::new(bytes).map_err(|_| bad())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_any_name() {
        let names: Vec<_> = [&b"a b"[..], b"%2F", b"\xff\xfe", "é".as_bytes()]
            .map(|name| CString::new(name).unwrap())
            .to_vec();
        let text = encode_cursor(&names);
        assert!(text.is_ascii(), "{text}");
        assert_eq!(decode_cursor(&text).unwrap(), names);
        for bad in ["a//b", "%zz", "%0", "a/%00"] {
            assert!(decode_cursor(bad).is_err(), "{bad}");
        }
    }
}
