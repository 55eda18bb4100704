//! The system call filter: an allow list kept as data, compiled to the kernel's filter language by
//! ourselves, so that no C library is needed and a test can run the very program that is loaded.

mod filter;
mod table;
#[cfg(test)]
mod tests;

use crate::failure::Failure;

/// A compiled filter.
#[derive(Debug, Clone)]
pub(crate) struct Program(Vec<libc::sock_filter>);

impl Program {
    /// Compiles the table of this machine's architecture.
    pub(crate) fn compile() -> Result<Self, Failure> {
        let rows = table::rows().map_err(Failure::internal)?;
        filter::compile(&rows).map(Self).map_err(Failure::internal)
    }

    /// Compiles the table of workers that touch hostile bytes (`confined`).
    pub(crate) fn compile_confined() -> Result<Self, Failure> {
        let rows = table::confined().map_err(Failure::internal)?;
        filter::compile(&rows).map(Self).map_err(Failure::internal)
    }

    /// The instructions.
    pub(crate) fn instructions(&self) -> &[libc::sock_filter] {
        &self.0
    }
}
