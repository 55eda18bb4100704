//! Connections that are opened, from both ends: a client with a socket of its own, a host with a
//! certificate of an authority that the test made. Neither uses the gate's code.

mod client;
mod flow;
mod hidden;
mod host;
mod put;
mod smuggling;
mod trust;
mod world;
