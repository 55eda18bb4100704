//! What webhooks tell: recorded in the transaction in which it happened.

use holm_store::{AccountId, EndReason, Event, EventId, Record, SandboxState};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Engine, Error};

/// Most bytes of labels, as JSON, that an event repeats; with more it says that they are left out.
/// The rest of an event is below a kilobyte.
const METADATA_MAX: usize = holm_store::PAYLOAD_MAX / 2;

/// What happened to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    Created,
    /// The create failed, or nobody waited for it any more.
    NotMade,
    Ready,
    Extended,
    Paused,
    Resumed,
    PortExposed,
    PortUnexposed,
    Ended(EndReason),
}

impl Happened {
    fn kind(self) -> &'static str {
        match self {
            Self::Created => "sandbox.created",
            Self::Ready => "sandbox.ready",
            Self::Extended => "sandbox.extended",
            Self::Paused => "sandbox.paused",
            Self::Resumed => "sandbox.resumed",
            Self::PortExposed => "sandbox.port_exposed",
            Self::PortUnexposed => "sandbox.port_unexposed",
            Self::Ended(EndReason::Expired) => "sandbox.expired",
            Self::Ended(_) | Self::NotMade => "sandbox.destroyed",
        }
    }
}

impl Engine {
    /// What webhooks shall tell about `record`: each event for each of them.
    pub(crate) fn events(&self, what: &[Happened], record: &Record) -> Result<Vec<Event>, Error> {
        if what.is_empty() || self.inner.settings.webhooks.is_empty() {
            return Ok(Vec::new());
        }
        let mut payload = json!({
            "sandbox_id": record.id,
            "name": record.name,
            "size": record.size.as_str(),
            "status": record.state.as_str(),
            "created_at": record.created_at.to_string(),
            "ready_at": record.ready_at.map(|at| at.to_string()),
            "expires_at": record.expires_at.map(|at| at.to_string()),
            "paused_at": record.pause.turned_at.filter(|_| record.state == SandboxState::Paused)
                .map(|at| at.to_string()),
            "ended_at": record.ended.map(|ended| ended.at.to_string()),
            "ended_reason": record.ended.map(|ended| ended.reason.as_str()),
            "metadata": record.metadata,
        });
        if what.contains(&Happened::NotMade) {
            // Nothing is remembered of it, so that only events say how it ended.
            payload["status"] = "failed".into();
            payload["ended_at"] = Timestamp::now().to_string().into();
            payload["ended_reason"] = "create_failed".into();
        }
        // An event goes into the transaction of what it tells, and must never be what stops that.
        if payload["metadata"].to_string().len() > METADATA_MAX {
            payload["metadata"] = Value::Null;
            payload["metadata_left_out"] = true.into();
        }
        let mut events = Vec::new();
        for what in what {
            events.extend(self.events_of(what.kind(), record.account_id, &payload)?);
        }
        Ok(events)
    }

    /// Wakes those who tell webhooks, after events were recorded.
    pub(crate) fn events_recorded(&self) {
        if !self.inner.settings.webhooks.is_empty() {
            self.inner.told.send_replace(());
        }
    }

    /// The same event for each webhook.
    pub(crate) fn events_of(
        &self,
        kind: &'static str,
        account_id: AccountId,
        payload: &Value,
    ) -> Result<Vec<Event>, Error> {
        let id = EventId::random()?;
        let created_at = Timestamp::now();
        let tell = |target: &String| Event {
            id,
            account_id,
            kind: kind.to_owned(),
            payload: payload.clone(),
            target: target.clone(),
            created_at,
        };
        Ok(self.inner.settings.webhooks.iter().map(tell).collect())
    }
}
