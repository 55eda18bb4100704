//! The revision that a client and this side have agreed on by `initialize`.

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use super::revision::Revision;

/// The revision of requests that do not name their own.
#[derive(Debug)]
pub struct Agreed {
    fallback: Revision,
    revision: Mutex<Revision>,
}

impl Agreed {
    /// Nothing was said yet. `fallback` counts until then, and where `initialize` names no revision
    /// that is known; each transport has its own.
    #[must_use]
    pub fn new(fallback: Revision) -> Self {
        Self { fallback, revision: Mutex::new(fallback) }
    }

    /// The revision of requests that do not name their own.
    #[must_use]
    pub fn revision(&self) -> Revision {
        // Changed by single assignments only: it is whole even after a panic.
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `initialize`: agrees on a revision.
    pub fn negotiate(&self, params: &Map<String, Value>) -> Revision {
        let revision = Revision::negotiate(params, self.fallback);
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner) = revision;
        revision
    }
}
