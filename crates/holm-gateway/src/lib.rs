//! The faces of the engine. Each is a thin translation of engine calls into one protocol: a limit,
//! an error or a feature exists once, below.

#![forbid(unsafe_code)]

pub mod http;
pub mod mcp;
pub mod preview;
pub mod rest;
pub mod show;
pub mod site;
