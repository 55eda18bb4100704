//! MCP over Streamable HTTP: both eras on one endpoint.
//!
//! Requests that name their revision in `_meta` stand for themselves ([`modern`]). All others belong
//! to a session that `initialize` began ([`legacy`]). Calls are answered as plain JSON; only a
//! client that asks for progress, and says that it reads event streams, gets one. Closing the
//! connection stops the work of a request, in both eras: nobody is left to take the answer.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`face`] | the endpoint: paths, methods, bodies |
//! | [`legacy`] | requests of sessions |
//! | [`sessions`] | sessions, their owners, their ends |
//! | [`modern`] | requests that stand for themselves |
//! | [`calls`] | running calls: ids, cancellation, the end of a session |
//! | [`run`] | runs one call as JSON or as events |
//! | [`headers`] | the headers of the protocol |
//! | [`answer`] | JSON-RPC messages as HTTP responses |
//! | [`keyless`] | what needs no key |
//! | [`card`] | the server card |

pub mod answer;
pub mod calls;
pub mod card;
pub mod face;
pub mod headers;
pub mod keyless;
pub mod legacy;
pub mod modern;
pub mod run;
pub mod sessions;

pub use face::{HttpOptions, KEEP_ALIVE, McpFace};
