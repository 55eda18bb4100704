//! Images and the layers that templates are made of: read, verified, unpacked, kept, shared and pruned.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`template`], [`id`] | what a template is, and digests |
//! | [`library`] | templates and layers on disk: held, removed, pruned |
//! | [`import`] | where they come from: layouts, archives, root file systems |
//! | [`registry`] | and registries |
//! | [`written`] | layers of what a sandbox has written |
//! | [`unpack`] | one layer, unpacked in a confined worker |
//! | [`tar`] | archives |
//!
//! Knows no account, no sandbox and no HTTP server.

#![forbid(unsafe_code)]

mod error;
pub mod id;
pub mod import;
pub mod library;
pub mod registry;
mod tar;
pub mod template;
pub mod unpack;
mod written;

pub use error::{Result, TemplateError, TemplateErrorKind};
pub use id::{Digest, LayerId};
pub use library::{Held, Library, NewSnapshot, Pruned, Written};
pub use template::{Template, TemplateConfig};
pub use unpack::Limits;
pub use written::unreadable;
