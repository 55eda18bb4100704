//! What the parts of one gate share: its policies, what its DNS told, counters and denials.

use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::counters::{Tally, count};
use crate::denial::{Denial, Log, Protocol};
use crate::dns::Bounds;
use crate::inject::Set;
use crate::names::Names;
use crate::pace::Pace;
use crate::places::Places;
use crate::policy::{Compiled, HostName, Policies};
use crate::relay::{Bucket, Way};
use crate::share::Share;
use crate::tcp::{Origin, Registry};
use crate::uplink::Uplink;

/// Refusals of one sandbox that are noted in a second. A sandbox can make ten times as many; more notes would
/// tell nobody anything, and cost everybody.
pub(crate) const NOTED: u32 = 1000;

/// What the parts of one gate share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) uplink: Arc<Uplink>,
    /// What the owner of this sandbox has of the places that all share.
    pub(crate) share: Arc<Share>,
    pub(crate) names: Names,
    pub(crate) tally: Tally,
    pub(crate) log: Log,
    noted: Pace,
    pub(crate) dns: Bounds,
    pub(crate) injections: Set,
    pub(crate) open: Registry,
    pub(crate) origin: Origin,
    pub(crate) dialling: Places,
    pub(crate) opened: Places,
    pub(crate) bucket: Bucket,
    pub(crate) pipes_used: AtomicUsize,
    policies: RwLock<Arc<Compiled>>,
}

impl State {
    pub(crate) fn new(
        uplink: Arc<Uplink>,
        owner: &str,
        origin: Origin,
        policies: &Policies,
    ) -> Self {
        let compiled = Arc::new(Compiled::new(policies, uplink.deny()));
        let bucket = Bucket::new(uplink.limits().bandwidth);
        Self {
            dns: Bounds::new(uplink.limits().bandwidth),
            share: uplink.share(owner),
            uplink,
            names: Names::default(),
            tally: Tally::default(),
            log: Log::default(),
            noted: Pace::new(NOTED),
            injections: Set::default(),
            open: Registry::default(),
            origin,
            dialling: Places::default(),
            opened: Places::default(),
            bucket,
            pipes_used: AtomicUsize::new(0),
            policies: RwLock::new(compiled),
        }
    }

    /// The policies of this moment.
    pub(crate) fn policies(&self) -> Arc<Compiled> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets other policies, and resets what they refuse before this returns.
    pub(crate) fn set_policies(&self, policies: &Policies) {
        let compiled = Arc::new(Compiled::new(policies, self.uplink.deny()));
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = compiled;
        self.open.judge_again(self);
    }

    /// Counts bytes that were moved; how long to wait where the sandbox has used up its bandwidth.
    pub(crate) fn moved(&self, way: Way, bytes: usize) -> Option<Duration> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let counter = if way == Way::Out { &self.tally.bytes_out } else { &self.tally.bytes_in };
        count(counter, bytes);
        self.bucket.take(bytes)
    }

    /// Counts a refusal. True where it is to be noted as well.
    pub(crate) fn refused(&self) -> bool {
        count(&self.tally.denied_total, 1);
        let is_noted = self.noted.take();
        if !is_noted {
            count(&self.tally.denied_unlogged, 1);
        }
        is_noted
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
        if self.refused() {
            self.note(protocol, name, address, port, rule);
        }
    }

    /// Notes one that is counted.
    pub(crate) fn note(
        &self,
        protocol: Protocol,
        name: Option<&HostName>,
        address: Option<IpAddr>,
        port: u16,
        rule: &str,
    ) {
        let (at, name) = (Timestamp::now(), name.map(HostName::to_string));
        self.log.note(Denial {
            at,
            times: 1,
            name,
            address,
            port,
            protocol,
            rule: rule.to_owned(),
        });
    }
}
