//! The webhooks' outbox: what is to be told, recorded together with what happened, and told until
//! it was heard.

use std::time::Duration;

use jiff::Timestamp;

use crate::{AccountId, EventId};

/// Most bytes of an event's payload as JSON.
pub const PAYLOAD_MAX: usize = 64 << 10;

/// Something to tell one target. The same event is told the same target once, however often it is
/// added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Whose event.
    pub account_id: AccountId,
    /// What happened, such as `sandbox.created`.
    pub kind: String,
    /// What is told; at most [`PAYLOAD_MAX`] bytes.
    pub payload: serde_json::Value,
    /// Who is told: the address, or the name, of a webhook.
    pub target: String,
    /// When it happened; it is due at once.
    pub created_at: Timestamp,
}

/// Asks for events that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxClaim {
    /// Who is to be told; of everybody where absent. Who is slow then holds nobody else up.
    pub target: Option<String>,
    /// The time.
    pub now: Timestamp,
    /// How long the claimer has. After it somebody else may claim them, for the claimer may be
    /// dead.
    pub lease: Duration,
    /// At most so many.
    pub limit: u32,
}

/// A claimed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// Which attempt this is, from 1.
    pub attempt: i64,
}

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The target has heard it. Counts also when the claim has run out meanwhile.
    Delivered,
    /// Try again at this time.
    Retry(Timestamp),
    /// Give up.
    Abandoned,
}

/// Ends an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The event.
    pub id: EventId,
    /// The target.
    pub target: String,
    /// The attempt as claimed.
    pub attempt: i64,
    /// How it went.
    pub outcome: DeliveryOutcome,
    /// When.
    pub at: Timestamp,
}
