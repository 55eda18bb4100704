//! Layers: what is known of one, and the lock that keeps it.

use std::fs::{self, File};
use std::io;

use holm_runtime::confined;
use holm_runtime::ids::IdMap;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Draft, Library, read_record, same_file};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::LayerId;

/// The record beside a layer's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// For which ids it was unpacked.
    pub ids: IdMap,
    /// Bytes of its files.
    pub bytes: u64,
    /// Entries of its archive.
    pub entries: u64,
}

/// Keeps a layer for as long as it lives.
#[derive(Debug)]
pub(crate) struct LayerLock {
    pub id: LayerId,
    pub bytes: u64,
    _lock: File,
}

const RECORD: &str = "layer.json";

impl Library {
    /// Takes hold of a layer; none when it is not there.
    ///
    /// # Errors
    /// When it was unpacked for other ids than the present ones.
    pub(crate) fn layer(&self, id: &LayerId) -> Result<Option<LayerLock>> {
        let path = self.layer_dir(id);
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).tried("open a layer"),
        };
        // Whoever has it alone looks whether it may go, and has taken it away or not after that.
        flock(&lock, FlockOperation::LockShared).tried("lock a layer")?;
        if !same_file(&lock, &path)? {
            return Ok(None);
        }
        let facts: Facts = read_record(File::open(path.join(RECORD)).tried("open a layer")?)?;
        if facts.ids != confined::id_map() {
            return Err(TemplateError::new(
                TemplateErrorKind::OtherIds,
                format!(
                    "the layer {id} was unpacked when this user had other subordinate ids; remove \
                     the templates that use it, run `holm template prune`, and get them anew"
                ),
            ));
        }
        Ok(Some(LayerLock { id: id.clone(), bytes: facts.bytes, _lock: lock }))
    }

    /// Puts a finished draft in its place, or takes the same layer that another one put there.
    pub(crate) fn add_layer(&self, id: &LayerId, draft: Draft, facts: &Facts) -> Result<LayerLock> {
        let text = serde_json::to_vec(facts)
            .map_err(|error| TemplateError::internal(format!("write a layer: {error}")))?;
        fs::write(draft.path().join(RECORD), text).tried("write a layer")?;
        let mut draft = draft;
        loop {
            match draft.finish(&self.layer_dir(id))? {
                Ok(lock) => {
                    return Ok(LayerLock { id: id.clone(), bytes: facts.bytes, _lock: lock });
                }
                Err(again) => match self.layer(id)? {
                    Some(lock) => return Ok(lock),
                    // It was being taken away.
                    None => draft = again,
                },
            }
        }
    }
}
