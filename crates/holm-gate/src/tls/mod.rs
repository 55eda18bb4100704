//! TLS on both sides of a connection that is opened for credentials: towards the sandbox with the
//! gate's own authority, towards the world with whom the host trusts.

mod ca;
mod file;
mod leaves;
mod pem;
mod roots;

#[cfg(test)]
mod tests;

/// A certificate as text, for tests of other modules.
#[cfg(test)]
pub(crate) fn pem_of(der: &[u8]) -> String {
    pem::block("CERTIFICATE", der).to_string()
}

pub use ca::{Ca, CaError};
pub(crate) use leaves::Leaves;
pub(crate) use roots::{NoRoots, trust};
