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

/// May a permitted name have this address?
pub(crate) fn address(state: &State, address: IpAddr) -> Result<(), Rule> {
    if let Some(rule) = state.uplink.refused(address) {
        return Err(rule);
    }
    state.policies().tell(address).map_err(|refusal| refusal.rule)
}

/// May the names of this address be asked for? Those of one that was told may.
pub(crate) fn reverse(state: &State, address: IpAddr) -> Result<(), Rule> {
    self::address(state, address)?;
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
