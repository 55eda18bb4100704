//! Connections of a sandbox: accept, judge, dial, relay.

mod accept;
mod conn;
mod hello;
mod near;
mod opening;
mod origin;
mod plain;
mod registry;
mod request;
mod serve;

#[cfg(test)]
pub(crate) use hello::tests::hello;

pub(crate) use accept::{listener, serve};
pub(crate) use origin::Origin;
pub(crate) use registry::Registry;
