//! HTTP/1.1 between a sandbox and a host that credentials are bound to. Both sides are spoken to by
//! complete messages: what the sandbox sent is read, checked and written anew, so that nothing it
//! hides between messages reaches the host.

mod check;
mod exchange;
mod far;
mod refusal;
mod upgrade;

pub(crate) use check::Site;
pub(crate) use exchange::{Service, serve};
pub(crate) use far::{Dialling, Stream};
