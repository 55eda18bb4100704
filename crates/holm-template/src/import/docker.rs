//! What `docker save` wrote before it wrote layouts: `manifest.json`, configs, and plain layers.

use serde::Deserialize;

use super::archive::Archive;
use super::assemble::{Content, Image, Source};
use super::manifest::{refused, show};
use super::{Request, config};
use crate::error::Result;
use crate::template::MAX_LAYERS;
use crate::unpack::Packing;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Whether `manifest.json` is one of these, and not a file of a root file system.
pub(super) fn is_one(archive: &Archive) -> bool {
    images(archive).is_ok_and(|images| !images.is_empty())
}

fn images(archive: &Archive) -> Result<Vec<Saved>> {
    serde_json::from_slice(&archive.text("manifest.json")?)
        .map_err(|error| refused(format!("the archive's manifest.json cannot be read: {error}")))
}

pub(super) fn read<'a>(archive: &'a Archive, request: &Request) -> Result<Image<'a>> {
    let mut all = images(archive)?;
    let tags = |image: &Saved| image.repo_tags.clone().unwrap_or_default();
    if let Some(reference) = &request.reference {
        all.retain(|image| tags(image).contains(reference));
    }
    let names: Vec<String> = all.iter().flat_map(tags).map(|tag| show(&tag)).collect();
    let mut all = all.into_iter();
    let (image, more) = (all.next(), all.next());
    let Some(image) = image else { return Err(refused("there is no such image in it")) };
    if more.is_some() {
        return Err(refused(format!(
            "there are several images in it; choose one with --ref: {}",
            names.join(", ")
        )));
    }
    if image.layers.is_empty() || image.layers.len() > MAX_LAYERS {
        return Err(refused(format!("the image has {} layers", image.layers.len())));
    }
    let (config, ids) = config::read(&archive.text(&image.config)?, image.layers.len())?;
    let sources = image.layers.into_iter().zip(ids).map(|(name, id)| Source {
        // Whoever saved it may have packed it without saying so. The digest of what is in it counts.
        packing: Packing::Any,
        digest: None,
        size: None,
        diff_id: Some(id),
        content: Content::Blob(Box::new(move || archive.open(&name))),
    });
    let source = match names.first() {
        Some(name) => format!("docker-archive {name}"),
        None => "docker-archive".to_owned(),
    };
    Ok(Image { layers: sources.collect(), config, source })
}
