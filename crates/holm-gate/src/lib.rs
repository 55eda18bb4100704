//! The egress gate: the only way out of a sandbox. All TCP and DNS of a sandbox's namespace ends at
//! sockets that were made inside it and are served here; what a policy permits is dialled from the
//! host, everything else is refused at once.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`policy`] | what may be reached: rules, their two forms, and how questions are answered |
//! | [`address`] | what no policy opens |
//! | [`gate`], `state` | the gate of one sandbox |
//! | [`uplink`] | what all gates of a process share |
//! | `names` | which names a sandbox was given which address for |
//! | `dns` | names: judge, ask, filter, answer |
//! | [`inject`], [`tls`], `http` | credentials that a sandbox can use and not read |
//! | `tcp` | connections: accept, judge, and what a client says first |
//! | `dial`, `relay` | reaching the outside, and moving bytes |
//! | [`counters`], [`denial`], [`limits`] | what is told, and what is bounded |
//! | `pace`, `places`, `share` | how fast, how many at a time, and how many of those are whose |
//!
//! A rule by name is decided on what this sandbox was told by its own DNS together with what its
//! client asks for inside the connection, never on a name alone; the address that is dialled is the
//! one that was checked. Knows no accounts, no namespaces, no SQL and no other crate of ours.

#![forbid(unsafe_code)]

pub mod address;
pub mod counters;
pub mod denial;
mod dial;
mod dns;
pub mod gate;
mod http;
pub mod inject;
pub mod limits;
mod names;
mod pace;
mod places;
pub mod policy;
mod relay;
mod share;
mod state;
mod tcp;
#[cfg(test)]
mod tests;
mod text;
pub mod tls;
pub mod uplink;

pub use counters::Counters;
pub use denial::{Denial, Protocol};
pub use dial::{Proxy, ProxyError};
pub use gate::{Gate, GateError, Sockets};
pub use inject::{Injection, InjectionError, Secret};
pub use limits::Limits;
pub use policy::{EgressPolicy, HostName, Mode, Policies, PolicyError, Rule, Target};
pub use tls::{Ca, CaError};
pub use uplink::{Uplink, UplinkError, UplinkOptions};
