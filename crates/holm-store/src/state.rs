//! The states of a sandbox and why one ends.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Where a sandbox is in its life. An explicit machine: [`SandboxState::may_become`] is the only
/// place that knows the arrows.
///
/// ```text
///                  paused ─────────┐
///                   ▲  ▼           ▼
/// provisioning ──► running ──► deleting ──► deleted   (destroyed, expired, balance)
///       └──────────────────────►   └──────► failed    (lost, out of memory)
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    /// Being made.
    Provisioning,
    /// Usable.
    Running,
    /// All its processes stand still, and its memory is kept.
    Paused,
    /// Being removed; nothing works on it any more.
    Deleting,
    /// Gone, as somebody, its lease or its account's balance wanted.
    Deleted,
    /// Gone although nobody wanted it.
    Failed,
}

impl SandboxState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Provisioning,
        Self::Running,
        Self::Paused,
        Self::Deleting,
        Self::Deleted,
        Self::Failed,
    ];

    /// Whether the machine has an arrow from here to `next`.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Provisioning, Self::Running | Self::Deleting)
                | (Self::Running, Self::Paused | Self::Deleting)
                | (Self::Paused, Self::Running | Self::Deleting)
                | (Self::Deleting, Self::Deleted | Self::Failed)
        )
    }

    /// True from ready to the beginning of its end: it is somebody's, and is charged.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }

    /// True once nothing of it is left.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Deleted | Self::Failed)
    }

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
            Self::Failed => "failed",
        }
    }

    /// The state of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Why a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Somebody destroyed it.
    Destroyed,
    /// Its lease ran out.
    Expired,
    /// The kernel ended it for memory.
    OutOfMemory,
    /// Its account had nothing left to pay with.
    Balance,
    /// It died or stopped answering.
    Lost,
}

impl EndReason {
    /// Every reason.
    pub const ALL: [Self; 5] =
        [Self::Destroyed, Self::Expired, Self::OutOfMemory, Self::Balance, Self::Lost];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Destroyed => "destroyed",
            Self::Expired => "expired",
            Self::OutOfMemory => "out_of_memory",
            Self::Balance => "balance",
            Self::Lost => "lost",
        }
    }

    /// The reason of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// For the middle of a sentence.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Destroyed => "it was destroyed",
            Self::Expired => "its lifetime expired",
            Self::OutOfMemory => "it ran out of memory",
            Self::Balance => "its account's balance was used up",
            Self::Lost => "it died or stopped answering",
        }
    }

    /// The state in which such a sandbox rests.
    #[must_use]
    pub fn final_state(self) -> SandboxState {
        match self {
            Self::Destroyed | Self::Expired | Self::Balance => SandboxState::Deleted,
            Self::OutOfMemory | Self::Lost => SandboxState::Failed,
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// How a sandbox ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub reason: EndReason,
    /// When.
    pub at: Timestamp,
}

impl Ended {
    /// Now, for `reason`.
    #[must_use]
    pub fn now(reason: EndReason) -> Self {
        Self { reason, at: Timestamp::now() }
    }

    /// The moment in RFC 3339, to the second.
    #[must_use]
    pub fn at_text(&self) -> String {
        self.at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrows_are_these_and_no_others() {
        let mut arrows = Vec::new();
        for from in SandboxState::ALL {
            for to in SandboxState::ALL {
                if from.may_become(to) {
                    arrows.push(format!("{from}>{to}"));
                }
            }
            assert_eq!(from.is_over(), SandboxState::ALL.iter().all(|to| !from.may_become(*to)));
        }
        let want = [
            "provisioning>running",
            "provisioning>deleting",
            "running>paused",
            "running>deleting",
            "paused>running",
            "paused>deleting",
            "deleting>deleted",
            "deleting>failed",
        ];
        assert_eq!(arrows, want);
    }

    #[test]
    fn names_read_back_and_every_reason_rests_in_an_end() {
        for state in SandboxState::ALL {
            assert_eq!(SandboxState::read(state.as_str()), Some(state));
        }
        for reason in EndReason::ALL {
            assert_eq!(EndReason::read(reason.as_str()), Some(reason));
            assert!(reason.final_state().is_over(), "{reason}");
        }
    }
}
