//! Where templates come from.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`manifest`], [`config`] | what an image says of itself |
//! | [`layout`] | OCI image layouts: directories, and archives of them |
//! | [`docker`] | what `docker save` wrote before it wrote layouts |
//! | [`archive`] | files in an archive, found without unpacking it |
//! | [`rootfs`] | a root file system: an archive, or a directory |
//! | [`assemble`] | layers brought into the library, and the template recorded |

mod archive;
pub(crate) mod assemble;
pub(crate) mod config;
mod docker;
mod layout;
pub(crate) mod manifest;
mod rootfs;

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::library::Library;
use crate::template::Template;
use crate::unpack::{Limits, Packing};
use archive::Archive;

/// What is to become a template.
#[derive(Debug, Clone)]
pub struct Request {
    /// The template's name.
    pub name: String,
    /// Take the place of a template of that name. What is in use stays until it is not.
    pub replace: bool,
    /// Which image, where a file or layout has several.
    pub reference: Option<String>,
    /// What one layer may take.
    pub limits: Limits,
}

impl Request {
    /// A new template with the usual limits.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let limits = Limits::default();
        Self { name: name.into(), replace: false, reference: None, limits }
    }
}

/// Is told how far it is. All calls come from the thread that imports.
pub trait Progress {
    /// A layer begins, which has so many bytes as it is stored.
    fn layer(&self, index: usize, count: usize, bytes: Option<u64>);
    /// So many bytes more of it were taken.
    fn advance(&self, bytes: u64);
    /// A layer was there already.
    fn shared(&self, index: usize, count: usize);
}

/// Tells nobody.
impl Progress for () {
    fn layer(&self, _: usize, _: usize, _: Option<u64>) {}
    fn advance(&self, _: u64) {}
    fn shared(&self, _: usize, _: usize) {}
}

/// Makes a template of an OCI layout (a directory, or an archive of one), of what `docker save`
/// writes, or of a root file system (an archive, also compressed, or a directory). Blocks. Must stay in
/// one thread.
///
/// # Errors
/// When it is none of these, is damaged or refused, or the name is taken. Nothing is left then.
pub fn import(
    library: &Library,
    request: &Request,
    path: &Path,
    progress: &dyn Progress,
) -> Result<Template> {
    library.check_free(&request.name, request.replace)?;
    let unreadable = |error: std::io::Error| {
        TemplateError::new(
            TemplateErrorKind::NotAnImage,
            format!("`{}` cannot be read: {error}", path.display()),
        )
    };
    let facts = std::fs::metadata(path).map_err(unreadable)?;
    if facts.is_dir() {
        if layout::is_one(path) {
            let layout = layout::Directory::new(path);
            let image = layout::read(&layout, request)?;
            return assemble::assemble(library, request, image, progress);
        }
        return assemble::assemble(library, request, rootfs::directory(path), progress);
    }
    if !facts.is_file() {
        return Err(unreadable(std::io::Error::other("it is neither a file nor a directory")));
    }
    let mut file = open_file(path).map_err(unreadable)?;
    let mut start = [0; 262];
    let mut filled = 0;
    while filled < start.len() {
        match file.read(&mut start[filled..]).map_err(unreadable)? {
            0 => break,
            read => filled += read,
        }
    }
    if !is_tar(&start[..filled]) {
        return match packing(&start[..filled]) {
            Some(packing) => {
                let image = rootfs::file(path, facts.len(), packing);
                assemble::assemble(library, request, image, progress)
            }
            None => Err(TemplateError::new(
                TemplateErrorKind::NotAnImage,
                format!(
                    "`{}` is neither an image nor a root file system; an OCI layout, what `docker \
                     save` writes, a tar file (also with gzip or zstd) or a directory can be imported",
                    path.display()
                ),
            )),
        };
    }
    let archive = Archive::index(path)?;
    let image = if archive.has("oci-layout") && archive.has("index.json") {
        layout::read(&archive, request)?
    } else if archive.has("manifest.json") && docker::is_one(&archive) {
        docker::read(&archive, request)?
    } else {
        rootfs::file(path, facts.len(), Packing::Plain)
    };
    assemble::assemble(library, request, image, progress)
}

/// Opens what should be a file; what only looks like one makes nobody wait.
pub(crate) fn open_file(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::Error::other("it is not a file"))
}

fn is_tar(start: &[u8]) -> bool {
    start.len() >= 262 && &start[257..262] == b"ustar"
}

fn packing(start: &[u8]) -> Option<Packing> {
    match crate::unpack::guess(start) {
        Packing::Gzip => Some(Packing::Gzip),
        Packing::Zstd => Some(Packing::Zstd),
        Packing::Plain | Packing::Any => None,
    }
}
