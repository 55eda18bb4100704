//! Ports of sandboxes that may be reached from outside.

use jiff::Timestamp;

use crate::SandboxId;

/// Ports of one sandbox at most.
pub const PORTS_MAX: u32 = 64;

/// A port of a sandbox that may be reached from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Whose it is.
    pub sandbox_id: SandboxId,
    /// Its number.
    pub port: u16,
    /// Whether everybody may look, without a token.
    pub public: bool,
    /// Whether traffic extends the sandbox's lease.
    pub extend_lease: bool,
    /// Since when; what was signed for it before is not for it.
    pub created_at: Timestamp,
}
