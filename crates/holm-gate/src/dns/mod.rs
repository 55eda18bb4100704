//! The gate answers a sandbox's questions for names itself: policy is judged by name before anything
//! is sent and by address before anything is told, and what was told is remembered, so that a later
//! connection to an address is known by its name.

mod answer;
mod judge;
mod local;
mod name;
mod question;
mod reply;
mod resolve;
mod serve;
mod servers;
mod svcb;
mod upstream;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use serve::{Bounds, datagrams, socket, stream};
pub(crate) use servers::Servers;
pub(crate) use upstream::Upstream;
