//! Nodes: who runs sandboxes.

use jiff::Timestamp;

use crate::NodeId;

/// A node as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id; kept in its data directory.
    pub id: NodeId,
    /// The kernel's boot id: another one means that nothing of before is left there.
    pub boot_id: String,
    /// When it last said something.
    pub last_seen: Timestamp,
}
