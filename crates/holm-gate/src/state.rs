//! What the parts of one gate share: its policies, what its DNS told, counters and denials.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;

use crate::counters::{Tally, count};
use crate::denial::{Denial, Log, Protocol};
use crate::dns::Bounds;
use crate::inject::Set;
use crate::names::Names;
use crate::policy::{Compiled, HostName, Policies};
use crate::uplink::Uplink;

/// What the parts of one gate share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) uplink: Arc<Uplink>,
    pub(crate) names: Names,
    pub(crate) tally: Tally,
    pub(crate) log: Log,
    pub(crate) dns: Bounds,
    pub(crate) injections: Set,
    policies: RwLock<Arc<Compiled>>,
}

impl State {
    pub(crate) fn new(uplink: Arc<Uplink>, policies: &Policies) -> Self {
        let compiled = Arc::new(Compiled::new(policies, uplink.deny()));
        Self {
            uplink,
            names: Names::default(),
            tally: Tally::default(),
            log: Log::default(),
            dns: Bounds::default(),
            injections: Set::default(),
            policies: RwLock::new(compiled),
        }
    }

    /// The policies of this moment.
    pub(crate) fn policies(&self) -> Arc<Compiled> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_policies(&self, policies: &Policies) {
        let compiled = Arc::new(Compiled::new(policies, self.uplink.deny()));
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = compiled;
    }

    /// Counts and notes a refusal.
    pub(crate) fn deny(
        &self,
        protocol: Protocol,
        name: Option<&HostName>,
        address: Option<IpAddr>,
        port: u16,
        rule: &str,
    ) {
        count(&self.tally.denied_total, 1);
        let (at, name) = (Timestamp::now(), name.map(HostName::to_string));
        self.log.note(Denial { at, name, address, port, protocol, rule: rule.to_owned() });
    }
}
