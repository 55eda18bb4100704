//! The MCP face over pipes in memory, with the real engine above a driver and a guest that only
//! pretend: what is tested is the protocol, the session and the tools' translation.

mod calls;
mod client;
mod ending;
mod guest;
mod protocol;
mod room;
mod schemas;
mod tools;
mod world;
