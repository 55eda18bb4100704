//! Connections that are opened, from both ends: a client with a socket of its own, a host with a
//! certificate of an authority that the test made. Neither uses the gate's code.

pub(crate) mod client;
mod flow;
mod hidden;
pub(crate) mod host;
mod put;
mod smuggling;
mod trust;
pub(crate) mod world;
