//! Files in an archive on this host, found without unpacking it: their names are compared, never made
//! into paths.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::layout::Blobs;
use super::manifest::{MAX_TEXT, refused};
use super::open_file;
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::tar::{Fault, Kind, Reader};

/// Files of an image's archive; one with more is a root file system.
const MAX_FILES: usize = 4096;
/// Longest name of such a file.
const MAX_NAME: usize = 300;

/// An archive with the places of its files.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    /// Where each begins, and its length.
    files: BTreeMap<String, (u64, u64)>,
    /// Links among them.
    links: BTreeMap<String, String>,
}

impl Archive {
    /// Finds all files.
    pub(super) fn index(path: &Path) -> Result<Self> {
        let mut found =
            Self { path: path.to_owned(), files: BTreeMap::new(), links: BTreeMap::new() };
        let file = open_file(path).tried("open an archive")?;
        let mut reader = Reader::new(BufReader::new(file));
        while let Some(entry) = reader.next().map_err(damaged)? {
            let name = String::from_utf8(entry.path).ok().filter(|name| name.len() <= MAX_NAME);
            if let Some(name) = name.map(|name| name.trim_start_matches("./").to_owned()) {
                match entry.kind {
                    Kind::File => {
                        let at = reader.position().map_err(damaged)?;
                        // The last of one name counts, as everywhere.
                        found.files.insert(name, (at, entry.map.length));
                    }
                    Kind::Symlink | Kind::HardLink => {
                        let target = String::from_utf8_lossy(&entry.link).into_owned();
                        let hard = entry.kind == Kind::HardLink;
                        let target = if hard { target } else { beside(&name, &target) };
                        found.links.insert(name, target);
                    }
                    _ => {}
                }
            }
            if found.files.len() + found.links.len() > MAX_FILES {
                found.files.clear();
                found.links.clear();
                break;
            }
            reader.leap().map_err(damaged)?;
        }
        Ok(found)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The content of a file, with its length.
    pub(super) fn open(&self, name: &str) -> Result<(Box<dyn Read>, u64)> {
        let mut name = name;
        // `docker save` links layers that are alike.
        for _ in 0..8 {
            match self.links.get(name) {
                Some(target) => name = target,
                None => break,
            }
        }
        let missing = || {
            TemplateError::new(
                TemplateErrorKind::Damaged,
                format!("the archive lacks its file `{}`", super::manifest::show(name)),
            )
        };
        let (at, length) = *self.files.get(name).ok_or_else(missing)?;
        let mut file: File = open_file(&self.path).tried("open an archive")?;
        file.seek(SeekFrom::Start(at)).tried("read an archive")?;
        Ok((Box::new(file.take(length)), length))
    }

    /// All of a short file.
    pub(super) fn text(&self, name: &str) -> Result<Vec<u8>> {
        let (content, length) = self.open(name)?;
        if length > MAX_TEXT {
            return Err(refused(format!(
                "`{}` in the archive is too long",
                super::manifest::show(name)
            )));
        }
        let mut text = Vec::new();
        content.take(MAX_TEXT).read_to_end(&mut text).tried("read an archive")?;
        Ok(text)
    }
}

impl Blobs for Archive {
    fn index(&self) -> Result<Vec<u8>> {
        self.text("index.json")
    }

    fn blob(&self, digest: &crate::Digest) -> Result<(Box<dyn Read>, u64)> {
        self.open(&format!("blobs/sha256/{}", digest.hex()))
    }

    fn kind(&self) -> &'static str {
        "oci-archive"
    }
}

/// Where a link in the directory of `name` leads, as text.
fn beside(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn damaged(fault: Fault) -> TemplateError {
    let text = match fault {
        Fault::Broken(text) => format!("the archive is broken: {text}"),
        Fault::Short => "the archive breaks off; fetch or export it again".into(),
        Fault::Io(error) => format!("the archive cannot be read: {error}"),
    };
    TemplateError::new(TemplateErrorKind::Damaged, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_beside_their_file() {
        for (name, target, want) in [
            ("abc/layer.tar", "../def/layer.tar", "def/layer.tar"),
            ("a/b/c", "d", "a/b/d"),
            ("a", "../../../etc/passwd", "etc/passwd"),
        ] {
            assert_eq!(beside(name, target), want, "{name} {target}");
        }
    }
}
