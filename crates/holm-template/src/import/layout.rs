//! OCI image layouts.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::assemble::{Content, Image, Source};
use super::manifest::{self, Descriptor, MAX_TEXT, Manifest, refused, show};
use super::{Request, config, open_file};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;

/// Indexes below indexes that are followed.
const MAX_DEPTH: usize = 4;

/// A layout, wherever it is.
pub(super) trait Blobs {
    /// The text of `index.json`.
    fn index(&self) -> Result<Vec<u8>>;
    /// A blob, with its length. Nothing is verified here.
    fn blob(&self, digest: &Digest) -> Result<(Box<dyn Read>, u64)>;
    /// What it is, for people.
    fn kind(&self) -> &'static str;
}

/// A layout in a directory.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn open(&self, name: &str) -> Result<(Box<dyn Read>, u64)> {
        let file = open_file(&self.0.join(name)).map_err(|error| {
            TemplateError::new(
                TemplateErrorKind::Damaged,
                format!("the layout's file `{name}` cannot be read: {error}"),
            )
        })?;
        let length = file.metadata().tried("look at a blob")?.len();
        Ok((Box::new(file), length))
    }
}

impl Blobs for Directory {
    fn index(&self) -> Result<Vec<u8>> {
        all(self.open("index.json")?)
    }

    fn blob(&self, digest: &Digest) -> Result<(Box<dyn Read>, u64)> {
        self.open(&format!("blobs/sha256/{}", digest.hex()))
    }

    fn kind(&self) -> &'static str {
        "oci-layout"
    }
}

/// Whether a directory is a layout.
pub(super) fn is_one(path: &Path) -> bool {
    path.join("oci-layout").is_file()
        || (path.join("index.json").is_file() && path.join("blobs").is_dir())
}

/// Reads index, manifest and config.
pub(super) fn read<'a>(blobs: &'a impl Blobs, request: &Request) -> Result<Image<'a>> {
    let text = blobs.index()?;
    let mut found = manifest::read(&text, Some(manifest::OCI_INDEX))?;
    let mut named = None;
    for _ in 0..MAX_DEPTH {
        let manifests = match found {
            Manifest::Image(image) => return open(blobs, image, named),
            Manifest::Index(manifests) => manifests,
        };
        let chosen = manifest::choose(&manifests, request.reference.as_deref())?;
        named = named.or_else(|| chosen.reference().map(show));
        let text = verified(blobs, &chosen, "manifest")?;
        found = manifest::read(&text, Some(&chosen.media_type))?;
    }
    Err(refused("the image's indexes lead to each other"))
}

fn open<'a>(
    blobs: &'a impl Blobs,
    image: manifest::Image,
    named: Option<String>,
) -> Result<Image<'a>> {
    let text = verified(blobs, &image.config, "config")?;
    let (config, ids) = config::read(&text, image.layers.len())?;
    let mut layers = Vec::new();
    for ((descriptor, packing), id) in image.layers.into_iter().zip(ids) {
        let digest = descriptor.digest()?;
        let opened = digest.clone();
        layers.push(Source {
            packing,
            digest: Some(digest),
            size: Some(descriptor.size),
            diff_id: Some(id),
            content: Content::Blob(Box::new(move || blobs.blob(&opened))),
        });
    }
    let source = match named {
        Some(name) => format!("{} {name}", blobs.kind()),
        None => blobs.kind().to_owned(),
    };
    Ok(Image { layers, config, source })
}

/// All of a short blob, of the right length and digest.
fn verified(blobs: &impl Blobs, descriptor: &Descriptor, what: &str) -> Result<Vec<u8>> {
    let digest = descriptor.digest()?;
    let text = all(blobs.blob(&digest)?)?;
    if text.len() as u64 != descriptor.size || Digest::of_bytes(&text) != digest {
        return Err(TemplateError::new(
            TemplateErrorKind::Damaged,
            format!("the image's {what} is not what its digest {digest} says"),
        ));
    }
    Ok(text)
}

fn all((content, length): (Box<dyn Read>, u64)) -> Result<Vec<u8>> {
    if length > MAX_TEXT {
        return Err(refused("the image's manifest or config is too long"));
    }
    let mut text = Vec::new();
    content.take(MAX_TEXT).read_to_end(&mut text).tried("read a blob")?;
    Ok(text)
}
