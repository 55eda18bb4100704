//! Audit events: who did what to what, and what came of it. Append-only.

use std::fmt;

use jiff::Timestamp;

use crate::{AccountId, AuditId, KeyId};

/// Most bytes of an event's detail as JSON.
pub const DETAIL_MAX: usize = 4096;

/// How an audited action went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not allowed.
    Refused,
    /// It was allowed and did not work.
    Failed,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Done, Self::Refused, Self::Failed];

    /// Its stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    /// The outcome of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Its id.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// In whose account; nothing for what belongs to none, such as a refused key. No reference:
    /// an event may name what does not exist.
    pub account_id: Option<AccountId>,
    /// With which key.
    pub key_id: Option<KeyId>,
    /// What was wanted, such as `sandbox.create`.
    pub action: String,
    /// On what.
    pub target: Option<String>,
    /// What came of it.
    pub outcome: Outcome,
    /// More, without secrets; at most [`DETAIL_MAX`] bytes.
    pub detail: serde_json::Value,
}
