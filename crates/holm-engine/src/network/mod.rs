//! What a sandbox may reach: its own policy, its account's ceiling, and the gate that holds both.
//!
//! | module | what it is |
//! | --- | --- |
//! | `plan` | which policy a create gets, or why not |
//! | `link` | a sandbox's gate, and what has gone through |
//! | `attach` | the step of a create, and the same for a sandbox that is taken over |
//! | `calls` | looking at it and changing it while it runs |
//! | `refresh` | what is made up for in the background |
//!
//! A policy is recorded before it is in force. Where it is not known which of two is recorded,
//! nothing may be reached until it is: that is stricter than both.

mod attach;
mod calls;
mod link;
mod plan;
mod refresh;

pub use calls::network_steps;
pub(crate) use calls::view_of_record;
pub(crate) use link::{Link, Links};
pub(crate) use plan::{ceiling, choose};
pub(crate) use refresh::Refreshing;

use holm_gate::EgressPolicy;
use holm_runtime::{Enforcement, Layer};

use crate::engine::Inner;
use crate::{Error, ErrorKind};

/// Most characters of a policy in the audit log.
pub(crate) const AUDITED: usize = 2000;

/// The policy in a record. One that cannot be read, as of a newer engine, lets nothing out.
pub(crate) fn recorded(network: &serde_json::Value) -> EgressPolicy {
    EgressPolicy::parse_json(network).unwrap_or_else(|error| {
        tracing::error!(%error, "a recorded network policy cannot be read; nothing may be reached");
        EgressPolicy::none()
    })
}

impl Inner {
    /// Why there is no gate here and how to mend that; nothing where there is one.
    pub fn no_gate(&self) -> Option<String> {
        if self.settings.uplink.is_none() {
            return Some("This holm was started without one.".to_owned());
        }
        no_gate(self.driver.enforcement())
    }

    /// The same as far as it is known without looking, for which a sandbox may have to be made.
    pub fn known_no_gate(&self) -> Option<String> {
        if self.settings.uplink.is_none() {
            return self.no_gate();
        }
        self.driver.known_enforcement().and_then(no_gate)
    }
}

fn no_gate(found: &Enforcement) -> Option<String> {
    match found.layers.iter().find(|row| row.layer == Layer::EgressGate) {
        Some(row) if row.enforced => None,
        Some(row) => row.mend.clone().or_else(|| Some(row.by.clone())),
        None => Some("Sandboxes of this driver have none.".to_owned()),
    }
}

/// That a network was asked for where there is none.
fn unavailable(mend: &str) -> Error {
    let text = "sandboxes have no network here: this host gives no egress gate";
    Error::new(ErrorKind::IsolationUnavailable, text)
        .suggest(format!("{mend} Or ask for network \"none\"."))
}
