//! `filesystem.Filesystem`: look, make, move, remove.

use std::ffi::{CStr, CString};

use holm_wire::connect::{Code, Error};
use holm_wire::filesystem::{
    EntryInfo, EntryResponse, ListDirRequest, ListDirResponse, MoveRequest, PathRequest,
};
use holm_wire::process::Empty;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::entry;
use super::path::{absolute, show};
use super::write::{direct, make_directories};
use crate::errors::{self, Result, invalid, shorten};
use crate::identity::{Names, User};
use crate::state::Guest;

/// Entries that one `ListDir` gives at most.
const MAX_ENTRIES: usize = 20_000;
/// Levels that it goes down at most.
const MAX_DEPTH: u32 = 64;

/// The acting user and the path, which begins at its home.
pub fn target(guest: &Guest, user: &str, path: &str) -> Result<(User, CString)> {
    let user = guest.users.find(user)?;
    let path = if path.is_empty() { "." } else { path };
    let path = absolute(path.strip_prefix("~/").unwrap_or(path), &user.home)?;
    Ok((user, path))
}

/// Without a slash at the end, for calls that act on the entry itself.
pub fn trimmed(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let bytes = bytes.strip_suffix(b"/").filter(|rest| !rest.is_empty()).unwrap_or(bytes);
    CString::new(bytes).unwrap_or_default()
}

fn described(doing: &str, path: &CStr) -> Result<EntryResponse> {
    let mut entry = entry::read(CWD, path, show(path), &Names::load())
        .map_err(|error| errors::file(doing, &show(path), error))?;
    entry.metadata = entry::metadata(path);
    Ok(EntryResponse { entry })
}

/// `Stat`.
///
/// # Errors
/// See [`errors::file`].
pub async fn stat(guest: &Guest, user: &str, request: PathRequest) -> Result<EntryResponse> {
    let (user, path) = target(guest, user, &request.path)?;
    guest.files.run(&user, move || described("look at", &trimmed(&path))).await?
}

/// `MakeDir`, with all that are missing above it.
///
/// # Errors
/// `already_exists` when it is there.
pub async fn make_dir(guest: &Guest, user: &str, request: PathRequest) -> Result<EntryResponse> {
    let (user, path) = target(guest, user, &request.path)?;
    let work = move || {
        let path = direct(&trimmed(&path));
        match make_directories(&path) {
            Ok(true) => described("make", &path),
            Ok(false) => Err(errors::file("make", &show(&path), Errno::EXIST)),
            Err(error) => Err(errors::file("make", &show(&path), error)),
        }
    };
    guest.files.run(&user, work).await?
}

/// `Move`. Missing directories above the destination are made; a file that is there is replaced.
///
/// # Errors
/// `not_found` when the source is missing.
pub async fn rename(guest: &Guest, user: &str, request: MoveRequest) -> Result<EntryResponse> {
    if request.source.is_empty() || request.destination.is_empty() {
        return Err(invalid("name both `source` and `destination`"));
    }
    let (user, source) = target(guest, user, &request.source)?;
    let (_, destination) = target(guest, &user.name, &request.destination)?;
    let work = move || {
        let (source, destination) = (trimmed(&source), direct(&trimmed(&destination)));
        rustix::fs::statat(CWD, &source, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| errors::file("move", &show(&source), error))?;
        let bytes = destination.to_bytes();
        let above = &bytes[..bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
        if !above.is_empty() {
            let above = CString::new(above).unwrap_or_default();
            make_directories(&above).map_err(|error| errors::file("make", &show(&above), error))?;
        }
        rustix::fs::rename(&source, &destination)
            .map_err(|error| errors::file("move to", &show(&destination), error))?;
        described("look at", &destination)
    };
    guest.files.run(&user, work).await?
}

/// `Remove`, with all below. What is missing is removed already.
///
/// # Errors
/// When something may not be removed.
pub async fn remove(guest: &Guest, user: &str, request: PathRequest) -> Result<Empty> {
    if request.path.is_empty() {
        return Err(invalid("name the `path` to remove"));
    }
    let (user, path) = target(guest, user, &request.path)?;
    let work = move || {
        let path = trimmed(&path);
        if path.to_bytes() == b"/" {
            return Err(invalid("the root directory cannot be removed"));
        }
        match super::remove::remove(&path) {
            Ok(()) | Err(Errno::NOENT) => Ok(Empty {}),
            Err(error) => Err(errors::file("remove", &show(&path), error)),
        }
    };
    guest.files.run(&user, work).await?
}

/// `ListDir`.
///
/// # Errors
/// `invalid_argument` on a file; `resource_exhausted` when there is more than one reply holds.
pub async fn list_dir(
    guest: &Guest,
    user: &str,
    request: ListDirRequest,
) -> Result<ListDirResponse> {
    let (user, path) = target(guest, user, &request.path)?;
    let depth = request.depth.clamp(1, MAX_DEPTH);
    let work = move || {
        let mut entries = Vec::new();
        // The same spelling as `Stat` gives, so no slash at the end.
        let path = trimmed(&path);
        list(&path, depth, &Names::load(), &mut entries)?;
        Ok(ListDirResponse { entries })
    };
    guest.files.run(&user, work).await?
}

fn list(path: &CStr, depth: u32, names: &Names, found: &mut Vec<EntryInfo>) -> Result<()> {
    let failed = |error| match error {
        Errno::NOTDIR => invalid(format!("{} is not a directory", shorten(&show(path)))),
        other => errors::file("list", &show(path), other),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut here = Vec::new();
    let mut reader = RawDir::new(&directory, buffer.spare_capacity_mut());
    while let Some(next) = reader.next() {
        let next = next.map_err(failed)?;
        let name = next.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        if found.len() + here.len() >= MAX_ENTRIES {
            return Err(Error::new(
                Code::ResourceExhausted,
                format!(
                    "{} holds more than {MAX_ENTRIES} entries; list a part of it, or page through \
                     it with ListTree",
                    shorten(&show(path))
                ),
            ));
        }
        let parent = show(path);
        let full = format!("{}/{}", parent.trim_end_matches('/'), name.to_string_lossy());
        // What went away meanwhile is not there.
        if let Ok(entry) = entry::read(&directory, name, full, names) {
            here.push((name.to_owned(), entry));
        }
    }
    drop(directory);
    here.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, entry) in here {
        let below = entry.r#type == holm_wire::filesystem::FileType::Directory && depth > 1;
        found.push(entry);
        if below {
            let mut full = path.to_bytes().strip_suffix(b"/").unwrap_or(path.to_bytes()).to_vec();
            full.push(b'/');
            full.extend_from_slice(name.to_bytes());
            let full = CString::new(full).unwrap_or_default();
            match list(&full, depth - 1, names, found) {
                Err(error) if error.code == Code::ResourceExhausted => return Err(error),
                // A directory below that may not be read is listed without its content.
                _ => {}
            }
        }
    }
    Ok(())
}
