//! The guest protocol: messages, framing, and (feature `client`) the client that a host uses.
//!
//! Two families share one socket and one form (Connect with JSON): the envd services that E2B
//! clients speak ([`process`], [`filesystem`]), and [`guest`], which holds what envd lacks.
//! This crate knows neither who calls nor who serves.

#![forbid(unsafe_code)]

pub mod background;
#[cfg(feature = "client")]
pub mod client;
pub mod connect;
pub mod encoding;
pub mod filesystem;
pub mod guest;
pub mod kernel;
pub mod paths;
pub mod process;
pub mod reason;

/// The envd version whose features the guest implements (`reference`: E2B SDKs gate on it).
pub const ENVD_VERSION: &str = "0.6.4";
