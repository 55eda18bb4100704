//! A root that is an image's: what the guest finds out and makes in it.
//!
//! All of it happens inside, where an image can lead the guest nowhere but into itself. Files are
//! opened so that none makes it wait.

use std::io::{Read as _, Write as _};

use holm_wire::guest::{Image, TRUSTED};
use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::errors::Result;
use crate::identity::User;
use crate::state::{Guest, WORKDIR};

/// Where images have the certificates that their programs trust; the first one that is there counts.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Most bytes of them.
const MAX_BUNDLE: u64 = 4 << 20;

/// Finds the image's user, and makes its working directory.
///
/// # Errors
/// When the image does not have the user that it names.
pub fn settle(guest: &Guest, image: &Image, workdir: &str) -> Result<()> {
    guest.users.set_default(&image.user)?;
    let workdir = if workdir.is_empty() { WORKDIR } else { workdir };
    let owner = guest.users.find("")?;
    // Where it cannot be made commands that name none start elsewhere; others are told.
    let _ = make_directory(workdir, guest.users.switches().then_some(&owner));
    if !image.authority.is_empty() {
        // Without it a program refuses what it cannot check.
        let _ = write_trusted(&image.authority);
    }
    Ok(())
}

/// A directory with those above it. The last one, if it is new, belongs to `owner`. What an image has
/// in the place of the usual one, and is none, gives way.
fn make_directory(path: &str, owner: Option<&User>) -> std::result::Result<(), Errno> {
    let mut at = String::new();
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    for (number, part) in parts.iter().enumerate() {
        at.push('/');
        at.push_str(part);
        let make = || rustix::fs::mkdir(at.as_str(), Mode::from_raw_mode(0o755));
        let made = match make() {
            Err(Errno::EXIST) if at == WORKDIR && !is_directory(&at) => {
                rustix::fs::unlink(at.as_str())?;
                make()
            }
            other => other,
        };
        match made {
            Ok(()) if number + 1 == parts.len() => {
                if let Some(user) = owner {
                    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
                    rustix::fs::chown(at.as_str(), Some(uid), Some(gid))?;
                }
            }
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Not by a link: one may lead where PID 1 can go and others cannot.
fn is_directory(path: &str) -> bool {
    let kind = rustix::fs::lstat(path).map(|facts| FileType::from_raw_mode(facts.st_mode));
    kind == Ok(FileType::Directory)
}

fn write_trusted(authority: &str) -> std::io::Result<()> {
    let mut text = BUNDLES.iter().find_map(|path| bundle(path)).unwrap_or_default();
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(authority.as_bytes());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    // An image's own file of that name is none of ours.
    match rustix::fs::unlink(TRUSTED) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let file = rustix::fs::openat(CWD, TRUSTED, flags, Mode::from_raw_mode(0o644))?;
    std::fs::File::from(file).write_all(&text)
}

fn bundle(path: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let facts = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = Vec::new();
    std::fs::File::from(file).take(MAX_BUNDLE).read_to_end(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_with_those_above_it_and_what_is_there_stays() {
        let base = std::env::temp_dir().join(format!("holm-image-{}", std::process::id()));
        let path = format!("{}/a//b/./c", base.display()).replace("/./", "/");
        make_directory(&path, None).unwrap();
        std::fs::write(base.join("a/file"), "").unwrap();
        make_directory(&path, None).unwrap();
        assert!(base.join("a/b/c").is_dir());
        assert!(make_directory(&format!("{}/a/file/x", base.display()), None).is_err());
        std::fs::remove_dir_all(base).unwrap();
    }
}
