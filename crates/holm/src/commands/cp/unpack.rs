//! A tar stream from a sandbox into files here. What is in it is not trusted: nothing is written
//! outside the directory, no set-id bit and no owner is kept.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tar::{Archive, EntryType};

/// Unpacks a tree into a directory, which is made where it is missing.
///
/// # Errors
/// When something cannot be written, or the stream is no archive or leads outside.
pub(super) fn tree(from: impl Read, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut archive = Archive::new(from);
    archive.set_preserve_permissions(false);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    for entry in archive.entries()? {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Directory | EntryType::Symlink => {}
            // Pipes, and what only a hostile stream has.
            _ => continue,
        }
        if !entry.unpack_in(to)? {
            return Err(outside());
        }
    }
    rest(archive)
}

/// Writes the one file of a stream, which appears at its path when it is whole.
///
/// # Errors
/// As [`tree`].
pub(super) fn file(from: impl Read, to: &Path) -> io::Result<()> {
    let draft = to.with_file_name(format!(".holm-cp-{}", std::process::id()));
    let mut archive = Archive::new(from);
    let written = first(&mut archive, &draft).and_then(|()| {
        rest(archive)?;
        fs::rename(&draft, to)
    });
    if written.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn first(archive: &mut Archive<impl Read>, draft: &Path) -> io::Result<()> {
    let Some(entry) = archive.entries()?.next() else {
        return Err(io::Error::other("the sandbox sent no file"));
    };
    let mut entry = entry?;
    if entry.header().entry_type() != EntryType::Regular {
        return Err(io::Error::other("what the sandbox sent is not a file"));
    }
    let bits = entry.header().mode()? & 0o777;
    let mut out = File::options().write(true).create_new(true).mode(0o600).open(draft)?;
    io::copy(&mut entry, &mut out)?;
    out.set_permissions(fs::Permissions::from_mode(bits))
}

/// To the stream's end: one that was cut off says so only there.
fn rest(archive: Archive<impl Read>) -> io::Result<()> {
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(|_| ())
}

fn outside() -> io::Error {
    io::Error::other("the sandbox sent a name that leads outside; nothing was written there")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tar::{Builder, Header};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("holm-cp-{name}-{}", std::process::id()));
            fs::create_dir_all(dir.join("to")).unwrap();
            Self(dir)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A name that no library would write.
    fn add(tar: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, target: &str) {
        let mut header = Header::new_ustar();
        header.as_ustar_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_ustar_mut().unwrap().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4777);
        header.set_size(if kind == EntryType::Regular { 4 } else { 0 });
        header.set_cksum();
        let content: &[u8] = if kind == EntryType::Regular { b"evil" } else { b"" };
        tar.append(&header, content).unwrap();
    }

    #[test]
    fn hostile_streams_write_nothing_outside() {
        for (name, entries) in [
            ("up", vec![("../out", EntryType::Regular, "")]),
            ("inner", vec![("a/../../out", EntryType::Regular, "")]),
            ("link", vec![("l", EntryType::Symlink, ".."), ("l/out", EntryType::Regular, "")]),
            ("file", vec![("l", EntryType::Symlink, "../out"), ("l", EntryType::Regular, "")]),
            ("hard", vec![("h", EntryType::Link, "../out"), ("h", EntryType::Regular, "")]),
        ] {
            let place = Place::new(name);
            let outside = place.0.join("out");
            if name != "up" && name != "inner" {
                fs::write(&outside, "good").unwrap();
            }
            let mut tar = Builder::new(Vec::new());
            for (path, kind, target) in entries {
                add(&mut tar, path, kind, target);
            }
            let _ = tree(tar.into_inner().unwrap().as_slice(), &place.0.join("to"));
            assert_ne!(fs::read(&outside).unwrap_or_default(), b"evil", "{name}");
        }
    }

    #[test]
    fn set_id_bits_and_devices_do_not_come_along() {
        let place = Place::new("bits");
        let mut tar = Builder::new(Vec::new());
        add(&mut tar, "tool", EntryType::Regular, "");
        add(&mut tar, "null", EntryType::Char, "");
        tree(tar.into_inner().unwrap().as_slice(), &place.0.join("to")).unwrap();
        let mode = fs::metadata(place.0.join("to/tool")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7000, 0, "{mode:o}");
        assert!(!place.0.join("to/null").exists());
    }
}
