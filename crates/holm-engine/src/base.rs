//! What a new sandbox is made from.

use std::collections::BTreeMap;

use holm_runtime::Root;
use holm_wire::guest::{Image, TRUSTED};

use crate::env;
use crate::template::{HeldTemplate, Standing, Template};

/// What a new sandbox is made from.
#[derive(Debug)]
pub(crate) struct Base {
    /// What is recorded of it.
    pub name: String,
    pub held: Option<HeldTemplate>,
    /// Under what name a copy is held, of a fork.
    pub copy: Option<String>,
}

impl Base {
    /// The host's own programs.
    pub fn host(name: String) -> Self {
        Self { name, held: None, copy: None }
    }

    pub fn template(held: HeldTemplate) -> Self {
        Self { name: held.template.name.clone(), held: Some(held), copy: None }
    }

    /// A copy of the files of a sandbox that was made from the template `name`.
    pub fn fork(name: String, copy: String, held: HeldTemplate) -> Self {
        Self { name, held: Some(held), copy: Some(copy) }
    }

    pub fn root(&self) -> Root {
        match &self.held {
            None => Root::Host,
            Some(held) if held.template.on_host => Root::Over(held.trees.clone()),
            Some(held) => Root::Layers(held.trees.clone()),
        }
    }

    /// What copies of a sandbox on this are to know.
    pub fn standing(&self) -> Standing {
        let copy = self.copy.clone();
        match &self.held {
            None => Standing { on_host: true, copy, ..Standing::default() },
            Some(HeldTemplate { template, .. }) => Standing {
                layers: template.layers.clone(),
                on_host: template.on_host,
                config: template.config.clone(),
                copy,
            },
        }
    }

    /// Where its root is an image's.
    fn image_of(&self) -> Option<&Template> {
        self.held.as_ref().map(|held| &held.template).filter(|template| !template.on_host)
    }

    /// Where commands start unless the caller says otherwise.
    pub fn workdir(&self) -> Option<&str> {
        let config = &self.held.as_ref()?.template.config;
        // As an image may have it: nothing, or relative to the root.
        config.workdir.as_deref().filter(|workdir| workdir.starts_with('/'))
    }

    /// What the guest is to do in the image. `trust` is what its programs are to trust besides.
    pub fn image(&self, trust: Option<&str>) -> Option<Image> {
        let config = &self.image_of()?.config;
        Some(Image {
            user: config.user.clone().unwrap_or_default(),
            authority: trust.unwrap_or_default().to_owned(),
        })
    }

    /// The template's variables below those of the caller.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>) {
        let Some(held) = &self.held else { return };
        for (name, value) in &held.template.config.env {
            let fits = name.len() + value.len() < env::MAX_ENTRY;
            // What could not reach a command: an image may hold anything.
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') || !fits {
                continue;
            }
            variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// The file of certificates that its programs are told of where they are to trust the gate.
    pub fn bundle(&self) -> &'static str {
        if self.image_of().is_some() { TRUSTED } else { env::BUNDLE }
    }
}
