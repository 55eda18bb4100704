//! Sizes of sandboxes, as plain data. Which sizes exist and fit a host is decided above.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The sizes' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum SizeName {
    Small,
    Medium,
    Large,
}

impl SizeName {
    /// All of them, smallest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    /// The size of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }
}

impl fmt::Display for SizeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// What one size means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Writable disk in MiB.
    pub disk_mb: u64,
    /// Files and directories of the writable disk.
    pub disk_inodes: u64,
    /// Processes and threads.
    pub max_processes: u64,
}

impl Size {
    /// Memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_mb.saturating_mul(1 << 20)
    }

    /// Disk in bytes.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk_mb.saturating_mul(1 << 20)
    }
}
