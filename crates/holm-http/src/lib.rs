//! HTTP/1 connections to servers that nobody trusts.
//!
//! Before the head of an answer a server may send interim ones (1xx), and hyper passes over them
//! without a bound: one that never ends costs its reader a processor, and nobody sees a byte of it. So
//! a connection here reads a bounded number of bytes between a request and the head of its answer, and
//! breaks off beyond. What comes after the head is its reader's to bound.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`parts`] | bodies of requests that come part by part |
//! | [`query`] | targets of requests |
//! | [`heads`] | the stream that counts |
//! | [`sender`] | the sender of requests that says when |

#![forbid(unsafe_code)]

pub mod heads;
pub mod parts;
pub mod query;
pub mod sender;

pub use heads::Heads;
pub use parts::{PartSender, Parts, parts};
pub use query::with_query;
pub use sender::{Sender, handshake};
