//! What each kind of entry makes.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};
use rustix::io::Errno;

use super::name::{Name, c_string, refused, show};
use super::task::{Form, Unpacked};
use super::tree::{Place, Tree, timestamps};
use super::{marker, xattr};
use crate::error::{Attempt as _, Result};
use crate::tar::{Entry, Kind, Reader};

/// Longest target of a symbolic link.
const MAX_TARGET: usize = 4095;
/// Zeros of this length are not written, so that holes stay holes.
const HOLE: usize = 4096;

/// Makes one.
pub(super) fn make<R: Read>(
    tree: &mut Tree,
    archive: &mut Reader<R>,
    entry: &Entry,
    done: &mut Unpacked,
) -> Result<()> {
    let form = tree.form();
    let name = Name::parse(&entry.path, form)?;
    xattr::check(entry, form)?;
    let Some(name) = name else { return root(tree, entry) };
    match form {
        Form::Image if marker::take(tree, &name)? => return Ok(()),
        Form::Overlay if entry.kind == Kind::Device => {
            let place = tree.place(&name)?;
            return marker::hide(&place).and_then(|()| tree.look(512));
        }
        _ => {}
    }
    let owner = tree.ids(&entry.path, entry.uid, entry.gid)?;
    match entry.kind {
        Kind::Device => {
            // No sandbox could open it.
            done.devices += 1;
        }
        Kind::Directory => {
            let place = tree.place(&name)?;
            let directory = tree.directory(&place)?;
            directory_facts(tree, entry, &directory, owner)?;
            if xattr::is_opaque(entry) {
                marker::set_opaque(&directory)?;
            }
            tree.directory_time(name.full(), entry.mtime);
        }
        Kind::File => {
            done.image |= is_image_file(&name);
            let place = tree.place(&name)?;
            file(tree, archive, entry, &place, owner)?;
        }
        Kind::HardLink => hard_link(tree, entry, &name)?,
        Kind::Symlink => {
            let target = target(entry)?;
            let place = tree.place(&name)?;
            tree.fresh(&place, |at, name| rustix::fs::symlinkat(&target, at, name))?;
            link_facts(entry, &place, owner)?;
        }
        Kind::Fifo => {
            let mode = Mode::from_raw_mode(entry.mode & 0o777);
            let place = tree.place(&name)?;
            tree.fresh(&place, |at, name| rustix::fs::mknodat(at, name, FileType::Fifo, mode, 0))?;
            link_facts(entry, &place, owner)?;
        }
    }
    tree.look(512)
}

/// Files at the top that an image's archive has and no root file system.
fn is_image_file(name: &Name) -> bool {
    name.above.is_empty() && matches!(name.own.as_slice(), b"oci-layout" | b"manifest.json")
}

fn root(tree: &mut Tree, entry: &Entry) -> Result<()> {
    if entry.kind != Kind::Directory {
        return Err(refused(&entry.path, "the root is a directory"));
    }
    let owner = tree.ids(&entry.path, entry.uid, entry.gid)?;
    let root = tree.root().try_clone_to_owned().tried("hold the root")?;
    directory_facts(tree, entry, &root, owner)?;
    tree.directory_time(Vec::new(), entry.mtime);
    Ok(())
}

fn directory_facts(
    tree: &Tree,
    entry: &Entry,
    directory: &OwnedFd,
    owner: Option<(Uid, Gid)>,
) -> Result<()> {
    own(directory, owner)?;
    rustix::fs::fchmod(directory, Mode::from_raw_mode(entry.mode)).tried("set a mode")?;
    xattr::set(entry, directory, tree.keeps_owners())
}

fn own(file: &impl std::os::fd::AsFd, owner: Option<(Uid, Gid)>) -> Result<()> {
    match owner {
        Some((uid, gid)) => rustix::fs::fchown(file, Some(uid), Some(gid)).tried("set an owner"),
        None => Ok(()),
    }
}

/// Owner and time of what is not opened; of a link there is no mode.
fn link_facts(entry: &Entry, place: &Place, owner: Option<(Uid, Gid)>) -> Result<()> {
    let (at, name, flags) = (&place.directory, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    if let Some((uid, gid)) = owner {
        rustix::fs::chownat(at, name, Some(uid), Some(gid), flags).tried("set an owner")?;
    }
    rustix::fs::utimensat(at, name, &timestamps(entry.mtime), flags).tried("set a time")
}

fn file<R: Read>(
    tree: &mut Tree,
    archive: &mut Reader<R>,
    entry: &Entry,
    place: &Place,
    owner: Option<(Uid, Gid)>,
) -> Result<()> {
    tree.count(match tree.form() {
        Form::Image => entry.map.length,
        Form::Overlay => entry.map.pieces.iter().map(|(_, length)| length).sum(),
    })?;
    let file = tree.file(place)?;
    let mut end = 0;
    archive.content(&entry.map, |offset, part| {
        end = write(&file, offset, part)?.max(end);
        tree.look(part.len() as u64)
    })?;
    if end < entry.map.length {
        file.set_len(entry.map.length).tried("set a length")?;
    }
    // In this order: a new owner takes set-id bits and capabilities away.
    own(&file, owner)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(entry.mode)).tried("set a mode")?;
    xattr::set(entry, &file, tree.keeps_owners())?;
    rustix::fs::futimens(&file, &timestamps(entry.mtime)).tried("set a time")
}

/// Writes what is not zeros. Gives where the last of it ends.
fn write(file: &File, offset: u64, part: &[u8]) -> Result<u64> {
    let mut end = 0;
    let mut start = 0;
    let zeros = |chunk: &[u8]| chunk.len() == HOLE && chunk.iter().all(|byte| *byte == 0);
    while start < part.len() {
        let chunks = part[start..].chunks(HOLE);
        let hole: usize = chunks.clone().take_while(|chunk| zeros(chunk)).map(<[u8]>::len).sum();
        start += hole;
        let chunks = part[start..].chunks(HOLE);
        let data: usize = chunks.take_while(|chunk| !zeros(chunk)).map(<[u8]>::len).sum();
        if data > 0 {
            let at = offset + start as u64;
            file.write_all_at(&part[start..start + data], at).tried("write a file")?;
            end = at + data as u64;
        }
        start += data;
    }
    Ok(end)
}

fn target(entry: &Entry) -> Result<std::ffi::CString> {
    if entry.link.is_empty() || entry.link.len() > MAX_TARGET {
        return Err(refused(&entry.path, "a symbolic link must lead somewhere"));
    }
    c_string(&entry.link)
}

fn hard_link(tree: &mut Tree, entry: &Entry, name: &Name) -> Result<()> {
    let to = show(&entry.link);
    let missing = || {
        refused(
            &entry.path,
            &format!("it is a hard link to `{to}`, which this layer has not as a file"),
        )
    };
    let target = Name::parse(&entry.link, tree.form())?.ok_or_else(missing)?;
    // Before the place is made: making it may not make the target.
    let source = tree.find(&target)?.ok_or_else(missing)?;
    let found = source.stat()?.ok_or_else(missing)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::Directory || marker::is_whiteout(&found)
    {
        return Err(missing());
    }
    let place = tree.place(name)?;
    if let Some(there) = place.stat()?
        && (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)
    {
        return Ok(());
    }
    let made = tree.fresh(&place, |at, name| {
        match rustix::fs::linkat(&source.directory, &source.name, at, name, AtFlags::empty()) {
            // The place was a directory with the target in it.
            Err(Errno::NOENT) => Ok(false),
            other => other.map(|()| true),
        }
    })?;
    if made { Ok(()) } else { Err(missing()) }
}
