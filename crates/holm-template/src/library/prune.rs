//! Freeing what nobody needs.

use std::collections::BTreeSet;
use std::fs::{self, File};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::draft::TAKEN;
use super::{Draft, Library, names, read_record, same_file};
use crate::error::{Attempt as _, Result};
use crate::id::LayerId;
use crate::library::Facts;

/// What was freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Layers.
    pub layers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left half-made by processes that ended.
    pub drafts: u64,
}

impl Library {
    /// Removes layers that no template names and nobody holds, and what the dead have left.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn prune(&self) -> Result<Pruned> {
        let mut pruned = Pruned { drafts: self.sweep()?, ..Pruned::default() };
        let all = names(&self.images.join("layers"))?;
        for id in all.iter().filter_map(|hex| format!("sha256:{hex}").parse::<LayerId>().ok()) {
            if let Some(bytes) = self.prune_layer(&id)? {
                pruned.layers += 1;
                pruned.bytes += bytes;
            }
        }
        Ok(pruned)
    }

    /// Removes what processes that ended have left half-made. Gives how many.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn sweep(&self) -> Result<u64> {
        let mut count = 0;
        let drafts = self.images.join("drafts");
        for name in names(&drafts)? {
            if let Some(draft) = Draft::take(self, drafts.join(name))? {
                draft.remove()?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Removes those of some layers that nothing names and nobody holds.
    pub(crate) fn free(&self, layers: &[LayerId]) -> Result<()> {
        layers.iter().try_for_each(|id| self.prune_layer(id).map(drop))
    }

    fn prune_layer(&self, id: &LayerId) -> Result<Option<u64>> {
        let path = self.layer_dir(id);
        let Ok(lock) = File::open(&path) else { return Ok(None) };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
            || !same_file(&lock, &path)?
        {
            return Ok(None);
        }
        // Read under the lock: whoever is about to name the layer holds it until it is named.
        let named: BTreeSet<LayerId> =
            self.recorded()?.into_iter().flat_map(|template| template.layers).collect();
        if named.contains(id) {
            return Ok(None);
        }
        let facts =
            File::open(path.join("layer.json")).ok().and_then(|file| read_record(file).ok());
        let bytes = facts.map_or(0, |facts: Facts| facts.bytes);
        let to = Draft::make(self)?;
        fs::rename(&path, to.path().join(TAKEN)).tried("take a layer away")?;
        drop(lock);
        to.remove()?;
        Ok(Some(bytes))
    }
}
