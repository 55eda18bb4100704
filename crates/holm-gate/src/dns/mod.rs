//! The gate answers a sandbox's questions for names itself: policy is judged by name before anything
//! is sent and by address before anything is told, and what was told is remembered, so that a later
//! connection to an address is known by its name.

mod answer;
mod judge;
mod local;
mod name;
mod pace;
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

#[allow(unused_imports, reason = "for connections to port 53, which the TCP side hands over")]
pub(crate) use serve::stream;
pub(crate) use serve::{Bounds, datagrams, socket};
pub(crate) use servers::Servers;
pub(crate) use upstream::Upstream;
