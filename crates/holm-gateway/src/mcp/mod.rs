//! MCP: the tools of the engine over JSON-RPC.
//!
//! The protocol layer is our own, on `serde_json`, and not the `rmcp` crate, because its behaviour
//! is the product here. Tried as it is (3.11), `rmcp` refuses an `initialize` with empty `params`,
//! which the documented smoke test sends; ends long calls by an idle timer; leaves a call whose
//! handler panicked without any answer; answers malformed JSON with the wrong error; and adds 130
//! crates. What MCP asks of a server that offers tools is small: the modules here.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`jsonrpc`] | envelopes, ids, error codes |
//! | [`revision`] | the five revisions and how they differ |
//! | [`server`] | answers requests, whatever transport they came by |
//! | [`session`], [`agreed`] | one client: its revision, default sandbox, sandboxes |
//! | [`backend`] | what answers a connection on stdio: the engine here, or a service elsewhere |
//! | `batch` | JSON arrays of messages |
//! | [`dispatch`] | the running calls of one connection: ids, cancellation, limits |
//! | [`stdio`], [`lines`] | the stdio transport |
//! | [`http`] | the Streamable HTTP transport |
//! | [`tool`], [`args`], [`outcome`], [`schema`] | what tools are made of |
//! | [`tools`] | the tools, one file each |
//!
//! Only `stdio`, `lines` and `http` know how bytes travel: a transport brings its own reading and
//! writing and uses the rest.

pub mod agreed;
pub mod args;
pub mod backend;
mod batch;
pub mod dispatch;
pub mod http;
pub mod jsonrpc;
pub mod lines;
pub mod outcome;
pub mod panics;
pub mod revision;
pub mod schema;
pub mod server;
pub mod session;
pub mod stdio;
pub mod tool;
pub mod tools;

pub use http::{HttpOptions, McpFace};
pub use server::Server;
pub use session::Session;
pub use stdio::{Ended, Shutdown, StdioOptions, serve_backend, serve_stdio};
