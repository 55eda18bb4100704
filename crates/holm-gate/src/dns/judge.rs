//! What the resolver asks of its sandbox: its rules as they are now, and that it is noted what they
//! led to.

use std::net::IpAddr;
use std::time::Duration;

use crate::denial::Protocol;
use crate::policy::HostName;
use crate::state::State;

/// The port of a denial.
const PORT: u16 = 53;

/// A rule that refuses, in words for those inside.
pub(crate) type Rule = String;

/// May this name be asked for?
pub(crate) fn name(state: &State, name: &HostName) -> Result<(), Rule> {
    state.policies().resolve(name).map_err(|refusal| refusal.rule)
}

/// May a permitted name lead to this one? Only what is denied by name may not.
pub(crate) fn target(state: &State, name: &HostName) -> Result<(), Rule> {
    state.policies().alias(name).map_err(|refusal| refusal.rule)
}

/// An address that a name has and that is not told.
#[derive(Debug)]
pub(crate) struct Untold {
    /// The address, where it is refused by a policy of the sandbox or its account. One that is refused
    /// whatever they say is said nowhere: those inside could ask for one name after the other and have
    /// a map of the networks that this host's servers know.
    pub(crate) address: Option<IpAddr>,
    /// Why.
    pub(crate) rule: Rule,
}

impl Untold {
    /// In words for those inside.
    pub(crate) fn reason(&self) -> String {
        self.address.map_or_else(|| self.rule.clone(), |it| format!("{it}: {}", self.rule))
    }
}

/// May a permitted name have this address?
pub(crate) fn address(state: &State, address: IpAddr) -> Result<(), Untold> {
    if let Some(rule) = state.uplink.refused(address) {
        return Err(Untold { address: None, rule });
    }
    let denied = |rule: &crate::policy::Rule| rule.ports.is_none() && rule.covers_address(address);
    let is_of_service = state.uplink.deny().iter().any(denied);
    let address_if_told = (!is_of_service).then_some(address);
    let told = state.policies().tell(address);
    told.map_err(|refusal| Untold { address: address_if_told, rule: refusal.rule })
}

/// May the names of this address be asked for? Those of one that was told may.
pub(crate) fn reverse(state: &State, address: IpAddr) -> Result<(), Rule> {
    self::address(state, address).map_err(|untold| untold.rule)?;
    let told = !state.names.of(address).is_empty();
    state.policies().reverse(address, told).map_err(|refusal| refusal.rule)
}

/// A name was told these addresses, for this time.
pub(crate) fn told(state: &State, name: &HostName, addresses: &[IpAddr], holds: Duration) {
    state.names.learn(name, addresses, holds);
}

/// Something was refused.
pub(crate) fn denied(state: &State, name: Option<&HostName>, address: Option<IpAddr>, rule: &str) {
    state.deny(Protocol::Dns, name, address, PORT, rule);
}
