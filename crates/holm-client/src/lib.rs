//! A client of a holm service: HTTP with what a client in the field needs (proxies, own
//! certificates, bounds on silence, retries only where they are safe), MCP over it, and the sender
//! of webhooks.
//!
//! The HTTP part is hyper's connection with a small pool above it, because the rules here are the
//! product: a dropped call closes its connection, which is how the service learns of it; nothing is
//! ever sent twice that may have been taken; redirects are answers, so that no key follows one.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`client`], [`response`] | requests and answers |
//! | [`connect`], [`pool`], [`tls`], [`proxy`] | connections |
//! | [`retry`] | what is sent again, and when |
//! | [`sse`] | streams of events |
//! | [`mcp`] | a session with the service's MCP endpoint |
//! | [`rest`] | the service's REST, for administrators |
//! | [`otlp`] | traces for a collector |
//! | [`acme`] | certificates from an authority |
//! | [`webhook`], [`public`] | signed messages to other people's servers |
//!
//! Knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod acme;
pub mod client;
pub mod connect;
pub mod error;
pub mod key;
pub mod mcp;
pub mod otlp;
pub mod pool;
pub mod proxy;
pub mod public;
pub mod response;
pub mod rest;
pub mod retry;
pub mod sse;
pub mod tls;
pub mod upgrade;
pub mod url;
pub mod webhook;

pub use client::{Client, Options, Repeat, Request};
pub use connect::{Network, Reach};
pub use error::{Error, ErrorKind};
pub use key::ApiKey;
pub use proxy::Proxies;
pub use response::Response;
pub use rest::Rest;
pub use tls::Roots;
pub use upgrade::{Tunnel, Upgrade};
pub use url::{Url, UrlError};

pub use bytes::Bytes;
pub use holm_http::{PartSender, Parts, parts};
pub use hyper::Method;
