//! The HTTP server, MCP and REST on it, over real connections on loopback, with the real engine above a
//! driver and a guest that only pretend.

#[path = "../mcp/client.rs"]
#[allow(dead_code, reason = "shared with the suite over pipes, which uses all of it")]
mod client;
#[path = "../mcp/guest.rs"]
mod guest;
#[path = "../mcp/world.rs"]
mod world;

mod access;
mod admin;
mod bounds;
mod calls;
mod metrics;
mod modern;
mod requests;
mod rest;
mod revoked;
mod room;
mod secrets;
mod sessions;
mod site;
mod stop;
mod traces;
mod wire;
