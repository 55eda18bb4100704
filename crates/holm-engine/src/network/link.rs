//! A sandbox's gate, and what has gone through it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use holm_gate::{Counters, Denial, EgressPolicy, Gate, Injection, Policies};
use holm_store::Traffic;
use jiff::Timestamp;

use crate::secret::Applied;

/// A sandbox's side of its network.
#[derive(Debug, Default)]
pub(crate) struct Link(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    gate: Option<Gate>,
    /// When that was attached.
    since: Option<Timestamp>,
    own: EgressPolicy,
    ceiling: Option<EgressPolicy>,
    /// Which policy is recorded is not known; nothing may be reached until it is.
    unsure: bool,
    /// What was written down of gates before this one.
    before: Traffic,
    /// What gates of this process that are closed have counted.
    closed: Counters,
    /// The part of that which is not in the sum of [`Links`] yet.
    unsummed: Counters,
    /// What was written down last.
    written: Traffic,
    /// Which secrets the gate has.
    secrets: Option<Applied>,
}

/// What all gates of this process that are closed have counted.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<Counters>);

impl Links {
    fn lock(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sum with those of `links` that are open. Nothing is closed meanwhile, so it never goes
    /// down.
    pub fn sum<'a>(&self, links: impl Iterator<Item = &'a Link>) -> Counters {
        let closed = self.lock();
        links.fold(*closed, |sum, link| {
            let link = link.lock();
            let open = link.gate.as_ref().map(Gate::counters).unwrap_or_default();
            plus(plus(sum, link.unsummed), open)
        })
    }
}

fn plus(one: Counters, other: Counters) -> Counters {
    Counters {
        bytes_out: one.bytes_out.saturating_add(other.bytes_out),
        bytes_in: one.bytes_in.saturating_add(other.bytes_in),
        connections_total: one.connections_total.saturating_add(other.connections_total),
        connections_open: one.connections_open.saturating_add(other.connections_open),
        denied_total: one.denied_total.saturating_add(other.denied_total),
        denied_unlogged: one.denied_unlogged.saturating_add(other.denied_unlogged),
        dns_queries: one.dns_queries.saturating_add(other.dns_queries),
    }
}

impl State {
    fn policies(&self) -> Policies {
        let own = if self.unsure { EgressPolicy::none() } else { self.own.clone() };
        Policies { own, ceiling: self.ceiling.clone() }
    }

    /// Puts what is here in force. A policy that the gate refuses was checked before it came here.
    fn apply(&mut self) {
        let policies = self.policies();
        let Some(gate) = &self.gate else { return };
        if let Err(error) = gate.set_policies(policies) {
            tracing::error!(%error, "a policy is none: the gate is closed");
            drop(self.retire());
        }
    }

    /// Takes the gate away, whose end closes it. What it has counted stays.
    fn retire(&mut self) -> Option<Gate> {
        let gate = self.gate.take()?;
        let counted = Counters { connections_open: 0, ..gate.counters() };
        self.closed = plus(self.closed, counted);
        self.unsummed = plus(self.unsummed, counted);
        Some(gate)
    }

    fn counters(&self) -> Counters {
        let open = self.gate.as_ref().map(Gate::counters).unwrap_or_default();
        plus(self.closed, open)
    }
}

impl Link {
    /// Of a sandbox that may reach what both permit, and of which that was written down.
    pub fn new(own: EgressPolicy, ceiling: Option<EgressPolicy>, before: Traffic) -> Self {
        let written = before;
        Self(Mutex::new(State { own, ceiling, before, written, ..State::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the gate that `start` makes under the policies of this moment: none that is set
    /// meanwhile is lost.
    pub fn attach<E>(&self, start: impl FnOnce(Policies) -> Result<Gate, E>) -> Result<(), E> {
        let mut state = self.lock();
        let gate = start(state.policies())?;
        let before = state.retire();
        state.gate = Some(gate);
        state.since = Some(Timestamp::now());
        state.secrets = None;
        drop((state, before));
        Ok(())
    }

    /// Gives the gate what it puts into requests, unless it has that already.
    pub fn inject(&self, secrets: Applied, make: impl FnOnce() -> Vec<Injection>) {
        let mut state = self.lock();
        let Some(gate) = &state.gate else { return };
        if state.secrets.as_ref() == Some(&secrets) {
            return;
        }
        match gate.set_injections(make()) {
            Ok(()) => state.secrets = Some(secrets),
            Err(error) => tracing::error!(%error, "a sandbox cannot use its secrets"),
        }
    }

    pub fn is_attached(&self) -> bool {
        self.lock().gate.is_some()
    }

    /// Closes the gate and its connections. What was counted is kept.
    pub fn close(&self, links: &Links) {
        let mut all = links.lock();
        let mut state = self.lock();
        let gate = state.retire();
        *all = plus(*all, std::mem::take(&mut state.unsummed));
        drop((state, all));
        drop(gate);
    }

    /// Another policy of its own, which is recorded.
    pub fn set_own(&self, own: EgressPolicy) {
        let mut state = self.lock();
        state.own = own;
        state.unsure = false;
        state.apply();
    }

    /// Nothing may be reached until [`Self::set_own`] says what is recorded.
    pub fn set_unsure(&self) {
        let mut state = self.lock();
        state.unsure = true;
        state.apply();
    }

    pub fn is_unsure(&self) -> bool {
        self.lock().unsure
    }

    /// Another ceiling; one that is the same changes nothing.
    pub fn set_ceiling(&self, ceiling: Option<EgressPolicy>) {
        let mut state = self.lock();
        if state.ceiling != ceiling {
            state.ceiling = ceiling;
            state.apply();
        }
    }

    pub fn ceiling(&self) -> Option<EgressPolicy> {
        self.lock().ceiling.clone()
    }

    pub fn counters(&self) -> Counters {
        self.lock().counters()
    }

    pub fn denials(&self) -> Vec<Denial> {
        self.lock().gate.as_ref().map(Gate::denials).unwrap_or_default()
    }

    /// Since when these are noted: those before were in the memory of a gate that is gone.
    pub fn since(&self) -> Option<Timestamp> {
        let state = self.lock();
        state.since.filter(|_| state.gate.is_some())
    }

    /// Everything that has gone through since the sandbox was made.
    pub fn traffic(&self) -> Traffic {
        let state = self.lock();
        let counted = state.counters();
        let now = Traffic {
            bytes_out: counted.bytes_out,
            bytes_in: counted.bytes_in,
            connections: counted.connections_total,
            denied: counted.denied_total,
            dns_queries: counted.dns_queries,
        };
        state.before.plus(now)
    }

    /// Whether that is more than what was written down.
    pub fn is_news(&self, traffic: Traffic) -> bool {
        self.lock().written != traffic
    }

    /// That was written down.
    pub fn written(&self, traffic: Traffic) {
        self.lock().written = traffic;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::Arc;
    use std::time::Duration;

    use holm_gate::{Mode, Sockets, Uplink, UplinkOptions};

    use super::*;

    /// A policy that no caller can set: it is checked before.
    fn broken() -> EgressPolicy {
        let rule = "a.example".parse().expect("a rule");
        EgressPolicy { mode: Mode::Open, deny: vec![rule; 1000], ..EgressPolicy::none() }
    }

    #[test]
    fn what_a_closed_gate_has_counted_stays() {
        let uplink = Arc::new(Uplink::new(UplinkOptions::default()).expect("an uplink"));
        let (links, link) = (Links::default(), Link::default());
        let ask = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            let address = socket.local_addr().expect("an address");
            let sockets = Sockets { tcp: Vec::new(), dns: vec![socket.into()] };
            let start = |policies| Gate::start(&uplink, "somebody", sockets, policies);
            link.attach(start).expect("a gate");
            let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            client.set_read_timeout(Some(Duration::from_secs(50))).expect("a time");
            let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01";
            client.send_to(question, address).expect("sent");
            client.recv(&mut [0; 512]).expect("an answer");
        };
        let check = |asked: u64| {
            assert_eq!(link.counters().dns_queries, asked);
            assert_eq!(links.sum([&link].into_iter()).dns_queries, asked);
        };
        ask();
        check(1);
        // Closed by a policy that is none.
        link.set_own(broken());
        assert!(!link.is_attached());
        check(1);
        // Attached anew, and once more without an end in between.
        link.set_own(EgressPolicy::none());
        ask();
        check(2);
        ask();
        check(3);
        link.close(&links);
        check(3);
        link.close(&links);
        check(3);
        assert_eq!(links.sum(std::iter::empty()).dns_queries, 3, "it is in the sum for good");
    }
}
