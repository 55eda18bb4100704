//! The config of an image: its layers' contents by digest, and how programs are started in it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::manifest::{ARCHITECTURE, refused, show, unsupported};
use crate::error::Result;
use crate::id::LayerId;
use crate::template::TemplateConfig;

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Process>,
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Process {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

/// Reads one for an image of `layers` layers.
pub(crate) fn read(text: &[u8], layers: usize) -> Result<(TemplateConfig, Vec<LayerId>)> {
    let config: Config = serde_json::from_slice(text)
        .map_err(|error| refused(format!("the image's config cannot be read: {error}")))?;
    let differs = |said: &str, own: &str| !said.is_empty() && said != own;
    if differs(&config.os, "linux") || differs(&config.architecture, ARCHITECTURE) {
        return Err(unsupported(format!(
            "the image is not for this machine (linux/{ARCHITECTURE}), but for {}/{}",
            show(&config.os),
            show(&config.architecture)
        )));
    }
    let ids = config.rootfs.diff_ids.iter().map(|id| id.parse::<LayerId>());
    let ids: Vec<LayerId> = ids
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| refused(format!("the image's config: {error}")))?;
    if ids.len() != layers {
        return Err(refused(format!(
            "the image has {layers} layers, but its config names {}",
            ids.len()
        )));
    }
    Ok((process(config.config.unwrap_or_default()), ids))
}

fn process(process: Process) -> TemplateConfig {
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let env = process.env.unwrap_or_default();
    TemplateConfig {
        env: env
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        user: some(process.user),
        workdir: some(process.working_dir),
        entrypoint: process.entrypoint.unwrap_or_default(),
        cmd: process.cmd.unwrap_or_default(),
        start: None,
        ready: None,
        labels: process.labels.unwrap_or_default(),
    }
}
