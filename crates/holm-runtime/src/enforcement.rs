//! What a host can enforce, layer by layer.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One layer of isolation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Layer {
    UserNamespace,
    OwnIdRange,
    MountNamespace,
    PidNamespace,
    NetNamespace,
    IpcNamespace,
    UtsNamespace,
    CgroupNamespace,
    PivotRoot,
    MaskedProc,
    Seccomp,
    Landlock,
    NoNewPrivileges,
    Capabilities,
    DiskLimit,
    InodeLimit,
    ProcessLimit,
    MemoryLimit,
    CpuLimit,
    HiddenHostFiles,
    EgressGate,
}

impl Layer {
    /// What a service demands unless its operator allows it to be missing. Elsewhere sandboxes run
    /// without it and say so.
    pub const EXCUSABLE: [Self; 4] =
        [Self::OwnIdRange, Self::Landlock, Self::MemoryLimit, Self::CpuLimit];
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its serialized name, so that there is one list of names.
        self.serialize(out)
    }
}

/// How a layer stands on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerState {
    /// Which layer.
    pub layer: Layer,
    /// True when it is in force.
    pub enforced: bool,
    /// True when nothing runs without it.
    pub mandatory: bool,
    /// What does it, or what is used instead, for example `cgroup v1 memory` or `tmpfs, counted
    /// as memory`.
    pub by: String,
    /// How to mend it where it is missing or weak.
    pub mend: Option<String>,
}

/// Every layer, in the order of [`Layer`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// `root` or `rootless` (and `rootless with subordinate ids`).
    pub mode: String,
    /// One row a layer.
    pub layers: Vec<LayerState>,
    /// Whether sandboxes can be paused.
    #[serde(default)]
    pub pause: Pausing,
}

/// Whether a host can stop all processes of a sandbox and let them go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pausing {
    /// Whether it can.
    pub possible: bool,
    /// What does it, for example `cgroup v1 freezer`, or why nothing does.
    pub by: String,
    /// How to mend it where it cannot be done.
    pub mend: Option<String>,
}

impl Enforcement {
    /// The same where these layers are mandatory too.
    pub(crate) fn demanding(mut self, layers: &[Layer]) -> Self {
        for row in &mut self.layers {
            row.mandatory |= layers.contains(&row.layer);
        }
        self
    }

    /// Layers without which nothing runs and that are missing.
    pub fn missing_mandatory(&self) -> impl Iterator<Item = &LayerState> {
        self.layers.iter().filter(|row| row.mandatory && !row.enforced)
    }
}
