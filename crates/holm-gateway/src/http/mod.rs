//! HTTP: one server for all faces that speak it.
//!
//! Nothing here knows what a face does. The server owns what is the same for all: connections and
//! their bounds in size and time, the way down, who may ask from where. It is `hyper` alone, without
//! a framework: there are few routes, and each bound has to be seen and tested anyway.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`server`] | accepting, connections, the orderly stop |
//! | `connection`, [`tls`] | HTTP/1.1 or HTTP/2, with TLS where there is some |
//! | [`streams`] | which of HTTP/2 wait for their client |
//! | `places` | how many connections, and for what |
//! | [`limits`] | every bound in one place |
//! | [`face`] | what answers below some paths, or for some hosts; the seam for further protocols |
//! | [`door`] | what is checked before a face does anything: host, origin, credential |
//! | [`access`] | credentials and whose they are |
//! | [`origin`] | against web pages that drive a server of the same machine |
//! | [`percent`] | what addresses escape |
//! | [`body`] | request bodies, bounded |
//! | [`reply`] | responses: whole, or a stream of events |
//! | [`pulse`] | ends connections whose client does not read |
//! | [`health`] | `/health` and `/ready` |
//! | [`metrics`] | `/metrics` |
//! | [`trace`] | spans for whoever collects them |

pub mod access;
pub mod body;
mod connection;
pub mod door;
pub mod face;
pub mod health;
pub mod limits;
pub mod metrics;
pub mod origin;
pub mod percent;
mod places;
pub mod pulse;
pub mod reply;
pub mod server;
pub mod streams;
pub mod tls;
pub mod trace;

pub use access::{Access, Caller, KeyAccess};
pub use door::Door;
pub use face::Face;
pub use limits::Limits;
pub use server::{Options, serve};
