//! The webhooks' outbox.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Tables, micros};
use crate::{
    Completion, Delivery, DeliveryOutcome, Event, EventId, OutboxClaim, PAGE_MAX, StoreError, rules,
};

#[derive(Default)]
pub(super) struct Table(BTreeMap<(EventId, String), Row>);

struct Row {
    event: Event,
    attempts: i64,
    next_attempt_at: Timestamp,
    done_at: Option<Timestamp>,
}

impl Tables {
    pub(super) fn check_events(&self, events: &[Event]) -> Result<(), StoreError> {
        events.iter().try_for_each(|event| {
            rules::payload_text(event)?;
            rules::texts([&*event.kind, &*event.target])?;
            self.accounts.get(event.account_id).map(|_| ())
        })
    }

    pub(super) fn outbox_add(&mut self, event: Event) -> Result<bool, StoreError> {
        self.check_events(std::slice::from_ref(&event))?;
        Ok(self.outbox.add(event))
    }
}

impl Table {
    pub fn add_all(&mut self, events: Vec<Event>) {
        for event in events {
            self.add(event);
        }
    }

    fn add(&mut self, mut event: Event) -> bool {
        let key = (event.id, event.target.clone());
        if self.0.contains_key(&key) {
            return false;
        }
        event.created_at = micros(event.created_at);
        let next_attempt_at = event.created_at;
        self.0.insert(key, Row { event, attempts: 0, next_attempt_at, done_at: None });
        true
    }

    pub fn claim(&mut self, claim: &OutboxClaim) -> Vec<Delivery> {
        let lease = SignedDuration::try_from(claim.lease).unwrap_or(SignedDuration::MAX);
        let until = micros(claim.now.checked_add(lease).unwrap_or(Timestamp::MAX));
        let now = micros(claim.now);
        let is_asked_for =
            |row: &Row| claim.target.as_ref().is_none_or(|to| *to == row.event.target);
        let is_due =
            |row: &Row| row.done_at.is_none() && row.next_attempt_at <= now && is_asked_for(row);
        let mut due: Vec<&mut Row> = self.0.values_mut().filter(|row| is_due(row)).collect();
        // Stable: within one time they stay in the order of their keys.
        due.sort_by_key(|row| row.next_attempt_at);
        let limit = usize::try_from(claim.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
        let take = |row: &mut Row| {
            row.attempts += 1;
            row.next_attempt_at = until;
            Delivery { event: row.event.clone(), attempt: row.attempts }
        };
        due.into_iter().take(limit).map(take).collect()
    }

    pub fn complete(&mut self, done: &Completion) -> bool {
        let Some(row) = self.0.get_mut(&(done.id, done.target.clone())) else { return false };
        let in_time = row.attempts == done.attempt || done.outcome == DeliveryOutcome::Delivered;
        if row.done_at.is_some() || !in_time {
            return false;
        }
        match done.outcome {
            DeliveryOutcome::Retry(at) => row.next_attempt_at = micros(at),
            DeliveryOutcome::Delivered | DeliveryOutcome::Abandoned => {
                row.done_at = Some(micros(done.at));
            }
        }
        true
    }

    pub fn prune(&mut self, before: Timestamp) -> u64 {
        let count = self.0.len();
        self.0.retain(|_, row| row.done_at.is_none_or(|done| done >= micros(before)));
        u64::try_from(count - self.0.len()).unwrap_or(u64::MAX)
    }
}
