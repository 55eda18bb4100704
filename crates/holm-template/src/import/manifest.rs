//! Manifests and indexes of images.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;
use crate::template::MAX_LAYERS;
use crate::unpack::Packing;

/// Longest manifest, index or config.
pub(crate) const MAX_TEXT: u64 = 4 << 20;
/// Largest layer as it is stored.
pub(crate) const MAX_BLOB: u64 = 64 << 30;

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

const CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// Type of a layer, and how it is packed.
const LAYERS: [(&str, Packing); 9] = [
    ("application/vnd.oci.image.layer.v1.tar", Packing::Plain),
    ("application/vnd.oci.image.layer.v1.tar+gzip", Packing::Gzip),
    ("application/vnd.oci.image.layer.v1.tar+zstd", Packing::Zstd),
    ("application/vnd.oci.image.layer.nondistributable.v1.tar", Packing::Plain),
    ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Packing::Gzip),
    ("application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", Packing::Zstd),
    ("application/vnd.docker.image.rootfs.diff.tar", Packing::Plain),
    ("application/vnd.docker.image.rootfs.diff.tar.gzip", Packing::Gzip),
    ("application/vnd.docker.image.rootfs.diff.tar.zstd", Packing::Zstd),
];

/// The processor of this machine, as images name it.
pub(crate) const ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};

/// What leads to a blob.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    digest: String,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub variant: Option<String>,
}

impl Descriptor {
    pub(crate) fn digest(&self) -> Result<Digest> {
        self.digest.parse().map_err(|error| {
            unsupported(format!("{error}; images with other digests cannot be read"))
        })
    }

    /// The name that a layout gives it.
    pub(crate) fn reference(&self) -> Option<&str> {
        let notes = self.annotations.as_ref()?;
        let full = notes.get("io.containerd.image.name");
        full.or_else(|| notes.get("org.opencontainers.image.ref.name")).map(String::as_str)
    }

    /// Notes of a builder, in the form of an image for no machine.
    fn is_note(&self) -> bool {
        self.platform.as_ref().is_some_and(|platform| platform.os == "unknown")
    }

    fn suits(&self) -> bool {
        self.platform
            .as_ref()
            .is_none_or(|platform| platform.os == "linux" && platform.architecture == ARCHITECTURE)
    }
}

/// An index, which leads to manifests or further indexes, or a manifest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

/// What a document turned out to be.
#[derive(Debug)]
pub(crate) enum Manifest {
    Index(Vec<Descriptor>),
    Image(Image),
}

/// Config and layers, all of types that are known.
#[derive(Debug)]
pub(crate) struct Image {
    pub config: Descriptor,
    pub layers: Vec<(Descriptor, Packing)>,
}

/// Reads a document; `said` is the type that whoever led here gave it.
pub(crate) fn read(text: &[u8], said: Option<&str>) -> Result<Manifest> {
    let document: Document = serde_json::from_slice(text)
        .map_err(|error| refused(format!("the image's manifest cannot be read: {error}")))?;
    let kind = document.media_type.as_deref().or(said.filter(|said| !said.is_empty()));
    if let Some(kind) = kind
        && ![OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST].contains(&kind)
    {
        return Err(unsupported(format!("the image's manifest is of the type `{}`", show(kind))));
    }
    if document.schema_version != 2 {
        let version = document.schema_version;
        return Err(unsupported(format!("the image's manifest has the schema version {version}")));
    }
    match (document.manifests, document.config, document.layers) {
        (Some(manifests), None, None) => Ok(Manifest::Index(manifests)),
        (None, Some(config), Some(layers)) => image(config, layers).map(Manifest::Image),
        // One text with two meanings is how one image is shown and another one run.
        _ => Err(refused("the image's manifest is neither a manifest nor an index")),
    }
}

fn image(config: Descriptor, layers: Vec<Descriptor>) -> Result<Image> {
    if !CONFIGS.contains(&config.media_type.as_str()) {
        return Err(unsupported(format!(
            "what is to be imported is not a machine's image, but of the type `{}`",
            show(&config.media_type)
        )));
    }
    if layers.is_empty() || layers.len() > MAX_LAYERS {
        return Err(unsupported(format!(
            "the image has {} layers; 1 to {MAX_LAYERS} can be used",
            layers.len()
        )));
    }
    let mut known = Vec::new();
    for (index, layer) in layers.into_iter().enumerate() {
        let Some((_, packing)) = LAYERS.iter().find(|(kind, _)| *kind == layer.media_type) else {
            return Err(unsupported(format!(
                "layer {} of the image is of the type `{}`; layers packed with gzip or zstd, and \
                 plain ones, can be read",
                index + 1,
                show(&layer.media_type)
            )));
        };
        if layer.size > MAX_BLOB {
            return Err(TemplateError::new(
                TemplateErrorKind::TooLarge,
                format!("layer {} of the image has {} bytes", index + 1, layer.size),
            ));
        }
        layer.digest()?;
        known.push((layer, *packing));
    }
    config.digest()?;
    Ok(Image { config, layers: known })
}

/// The one image of an index that this machine runs.
pub(crate) fn choose(manifests: &[Descriptor], reference: Option<&str>) -> Result<Descriptor> {
    let mut found: Vec<&Descriptor> = manifests.iter().filter(|one| !one.is_note()).collect();
    if let Some(reference) = reference {
        let names = |one: &&Descriptor| one.reference() == Some(reference);
        // Below the top an index has no names.
        if found.iter().any(|one| one.reference().is_some()) {
            found.retain(names);
        }
    }
    if found.is_empty() {
        return Err(refused("there is no such image in it"));
    }
    found.retain(|one| one.suits());
    match found.as_slice() {
        [] => Err(unsupported(format!(
            "the image is not for this machine (linux/{ARCHITECTURE}), but for {}",
            platforms(manifests)
        ))),
        [one] => Ok((*one).clone()),
        [one, ..] if found.iter().all(|other| other.digest == one.digest) => Ok((*one).clone()),
        several => {
            let named: Vec<String> =
                several.iter().filter_map(|one| one.reference()).map(show).collect();
            if named.len() == several.len() {
                return Err(refused(format!(
                    "there are several images in it; choose one with --ref: {}",
                    named.join(", ")
                )));
            }
            // Variants of one architecture; the first is the one that suits most machines.
            let plain = several.iter().find(|one| {
                one.platform.as_ref().is_none_or(|platform| platform.variant.is_none())
            });
            Ok((*plain.unwrap_or(&several[0])).clone())
        }
    }
}

fn platforms(manifests: &[Descriptor]) -> String {
    let list: Vec<String> = manifests
        .iter()
        .filter(|one| !one.is_note())
        .filter_map(|one| one.platform.as_ref())
        .take(20)
        .map(|platform| show(&format!("{}/{}", platform.os, platform.architecture)))
        .collect();
    list.join(", ")
}

/// Text of an image, short and without what would steer a terminal.
pub(crate) fn show(text: &str) -> String {
    crate::unpack::show(text.as_bytes())
}

pub(crate) fn unsupported(text: impl Into<String>) -> TemplateError {
    TemplateError::new(TemplateErrorKind::Unsupported, text)
}

pub(crate) fn refused(text: impl Into<String>) -> TemplateError {
    TemplateError::new(TemplateErrorKind::Refused, text)
}
