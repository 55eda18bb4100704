//! Holding what is in use.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};

use super::{LayerLock, Library, read_template, same_file};
use crate::error::{Attempt as _, Result};
use crate::id::LayerId;
use crate::template::{self, Template};

/// A template, or layers, in use: as long as it lives, no process removes or prunes them.
#[derive(Debug)]
pub struct Held {
    template: Option<Template>,
    layers: Vec<LayerId>,
    _record: Option<File>,
    _locks: Vec<LayerLock>,
}

impl Held {
    /// One that was just recorded, with everything that holds it.
    pub(super) fn recorded(template: Template, record: File, locks: Vec<LayerLock>) -> Self {
        let layers = template.layers.clone();
        Self { template: Some(template), layers, _record: Some(record), _locks: locks }
    }
}

impl Held {
    /// The template, where one was held by its name.
    #[must_use]
    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }

    /// Bottom to top.
    #[must_use]
    pub fn layers(&self) -> &[LayerId] {
        &self.layers
    }
}

impl Library {
    /// Holds a template and its layers. None when there is no such template.
    ///
    /// # Errors
    /// When it cannot be read, or a layer of it is not for the present ids.
    pub fn hold(&self, name: &str) -> Result<Option<Held>> {
        if template::check_name(name).is_err() {
            return Ok(None);
        }
        self.hold_record(name, name)
    }

    /// The same of what is recorded in a file, and is called `name`.
    pub(super) fn hold_record(&self, file: &str, name: &str) -> Result<Option<Held>> {
        let path = self.template_path(file);
        loop {
            let record = match File::open(&path) {
                Ok(record) => record,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).tried("open a template"),
            };
            // Who has it alone has it for the moment of its removal.
            flock(&record, FlockOperation::LockShared).tried("lock a template")?;
            if !same_file(&record, &path)? {
                continue;
            }
            let lock = record.try_clone().tried("hold a template")?;
            let template = read_template(record, name)?;
            let Some(held) = self.hold_layers(&template.layers)? else {
                // It is recorded, so its layers are there unless somebody took them by hand.
                return Err(crate::TemplateError::internal(format!("{name} lacks a layer")));
            };
            return Ok(Some(Held { template: Some(template), _record: Some(lock), ..held }));
        }
    }

    /// Holds layers. None when one of them is not there.
    ///
    /// # Errors
    /// As [`Library::hold`].
    pub fn hold_layers(&self, layers: &[LayerId]) -> Result<Option<Held>> {
        let mut locks = Vec::new();
        for id in layers {
            match self.layer(id)? {
                Some(lock) => locks.push(lock),
                None => return Ok(None),
            }
        }
        let layers = layers.to_vec();
        Ok(Some(Held { template: None, layers, _record: None, _locks: locks }))
    }
}
