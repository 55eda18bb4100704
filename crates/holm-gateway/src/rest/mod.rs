//! REST on `/v1`.
//!
//! A thin translation of the engine's calls. What a request looks like, what reads it, and how it
//! is described is one thing: the types of an endpoint. The OpenAPI document is made from the same
//! list of endpoints that answers requests, so neither can say what the other does not do.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`face`] | the way of a request: door, path, key, answer |
//! | [`endpoint`] | one method of one path, and the types that it is made of |
//! | [`input`] | from paths, queries and bodies to those types |
//! | [`output`] | and back |
//! | [`schema`] | how types are described |
//! | [`openapi`] | the document of all endpoints |
//! | [`failure`] | errors: types and statuses |
//! | [`over`] | what ends a request before its time |
//! | [`operations`] | what operations are called here |
//! | [`number`], [`text`], [`policy`] | values that know what they may be |
//! | the others | one resource each |

pub mod accounts;
pub mod archive;
pub mod audit;
pub mod code;
pub mod commands;
pub mod contexts;
pub mod endpoint;
pub mod events;
pub mod exec;
pub mod face;
pub mod failure;
pub mod files;
pub mod input;
pub mod keys;
pub mod network;
pub mod number;
pub mod openapi;
pub mod operations;
pub mod output;
pub mod over;
pub mod policy;
pub mod ports;
pub mod raw;
pub mod sandboxes;
pub mod schema;
pub mod secrets;
pub mod service;
mod snapshots;
pub mod templates;
pub mod text;
pub mod tunnel;

pub use face::{RestFace, RestOptions};
