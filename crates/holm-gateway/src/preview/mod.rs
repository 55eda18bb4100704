//! Previews: what runs in a sandbox, shown to people outside under a host name of its own.
//!
//! A page from a sandbox is hostile. So each exposed port has an origin of its own
//! (`<port>-<18 hex digits>.<domain>`), which it shares with neither the API nor another sandbox,
//! and this is decided by the name in the request before anything else is looked at. Programs
//! behind it get no credential of holm and may not answer what reaches beyond their origin.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`host`] | names of previews |
//! | [`token`] | what lets a visitor look: signed, for one port, for a while |
//! | [`used`] | which of them were used that work once |
//! | [`access`] | who may look |
//! | [`site`] | all previews of a process: where they are, who visits them |
//! | [`face`] | the way of a request |
//! | [`listener`] | a listener of their own |
//! | [`proxy`] | a request to the program, and its answer |
//! | [`pool`] | connections to programs, kept for reuse |
//! | [`relay`] | bodies on their way |
//! | [`upgrade`] | WebSockets and other protocols: bytes both ways |
//! | [`request`], [`response`], `headers` | headers that go in, and come out; taking some out |
//! | [`page`] | what a visitor sees where there is nothing else to see |

pub mod access;
pub mod face;
mod headers;
pub mod host;
pub mod listener;
pub mod page;
pub mod pool;
pub mod proxy;
pub mod relay;
pub mod request;
pub mod response;
pub mod site;
pub mod token;
pub mod upgrade;
pub mod used;

pub use host::Domain;
pub use site::{PreviewOptions, Previews};
