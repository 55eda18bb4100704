//! Credentials that a sandbox can use and not read. It sends a placeholder; the gate opens the
//! connection to the hosts that the credential is bound to, and to no others, and puts the credential
//! into the headers that are named for it.

mod injection;
mod open;
mod replace;
mod secret;
mod set;

#[cfg(test)]
pub(crate) mod tests;

pub use injection::{
    Injection, InjectionError, MAX_HEADERS, MAX_HOSTS, MAX_INJECTIONS, MAX_SECRET, PLACEHOLDER,
};
pub(crate) use open::{Opened, open};
pub(crate) use replace::{TooLong, replace};
pub use secret::Secret;
pub(crate) use set::Set;
