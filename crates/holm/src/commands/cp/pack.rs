//! Files and directories here as a tar stream.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tar::{Builder, EntryType, Header};

/// Levels of directories: as many as a sandbox unpacks.
const MAX_DEPTH: usize = 200;

/// Writes what is at `path` under `name`; a directory without a name as what is in it. Links stay
/// links, owners are left out, sockets and devices too.
///
/// # Errors
/// When something cannot be read, with its path, or `out` takes no more.
pub(super) fn pack(path: &Path, name: Option<&str>, out: impl Write) -> io::Result<()> {
    let mut tar = Builder::new(out);
    // What is named itself may be a link to what is meant.
    let facts = fs::metadata(path).map_err(|error| about(path, &error))?;
    let inside = name.map_or_else(String::new, str::to_owned);
    if facts.is_dir() {
        if let Some(name) = name {
            entry(&mut tar, &facts, EntryType::Directory, &format!("{name}/"))?;
        }
        below(&mut tar, path, &inside, 0)?;
    } else if facts.is_file() {
        file(&mut tar, path, &inside)?;
    } else {
        return Err(io::Error::other(format!("{} is neither file nor directory", path.display())));
    }
    tar.into_inner()?.flush()
}

fn below(tar: &mut Builder<impl Write>, path: &Path, name: &str, depth: usize) -> io::Result<()> {
    if depth >= MAX_DEPTH {
        let text = format!("{} is more than {MAX_DEPTH} directories deep", path.display());
        return Err(io::Error::other(text));
    }
    let list = fs::read_dir(path).map_err(|error| about(path, &error))?;
    for found in list {
        let found = found.map_err(|error| about(path, &error))?;
        let path = found.path();
        let last = found
            .file_name()
            .into_string()
            .map_err(|_| io::Error::other(format!("{}: its name is not UTF-8", path.display())))?;
        let name = if name.is_empty() { last } else { format!("{name}/{last}") };
        let facts = fs::symlink_metadata(&path).map_err(|error| about(&path, &error))?;
        if facts.is_dir() {
            entry(tar, &facts, EntryType::Directory, &format!("{name}/"))?;
            below(tar, &path, &name, depth + 1)?;
        } else if facts.is_file() {
            file(tar, &path, &name)?;
        } else if facts.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| about(&path, &error))?;
            let mut header = header(&facts, EntryType::Symlink);
            tar.append_link(&mut header, &name, target)?;
        }
    }
    Ok(())
}

fn file(tar: &mut Builder<impl Write>, path: &Path, name: &str) -> io::Result<()> {
    let file = File::open(path).map_err(|error| about(path, &error))?;
    let facts = file.metadata().map_err(|error| about(path, &error))?;
    let mut header = header(&facts, EntryType::Regular);
    header.set_size(facts.len());
    // One that shrinks meanwhile is filled up, since its length is said; one that grows is cut.
    let content = io::Read::take(io::Read::chain(file, io::repeat(0)), facts.len());
    tar.append_data(&mut header, name, content)
}

fn entry(
    tar: &mut Builder<impl Write>,
    facts: &fs::Metadata,
    kind: EntryType,
    name: &str,
) -> io::Result<()> {
    tar.append_data(&mut header(facts, kind), name, io::empty())
}

fn header(facts: &fs::Metadata, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(facts.mode() & 0o777);
    header.set_mtime(u64::try_from(facts.mtime()).unwrap_or(0));
    header.set_size(0);
    header
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
