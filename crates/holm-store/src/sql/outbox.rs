//! The webhooks' outbox.

use jiff::{SignedDuration, Timestamp};

use super::{Reader, Tx, args};
use crate::outbox::{Completion, Delivery, DeliveryOutcome, Event, OutboxClaim};
use crate::{PAGE_MAX, StoreError, rules};

fn read(row: &mut Reader) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        event: Event {
            id: row.id()?,
            account_id: row.id()?,
            kind: row.text()?,
            payload: row.json()?,
            target: row.text()?,
            created_at: row.time()?,
        },
        attempt: row.int()?,
    })
}

pub(super) async fn add(tx: &mut dyn Tx, event: &Event) -> Result<bool, StoreError> {
    const INSERT: &str = "INSERT INTO outbox (event_id, account_id, kind, payload, target,
         created_at, attempts, next_attempt_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?6) ON CONFLICT (event_id, target) DO NOTHING";
    let payload = rules::payload_text(event)?;
    if super::account::get(tx, event.account_id).await?.is_none() {
        return Err(StoreError::unknown("account", &event.account_id));
    }
    let values =
        args![event.id, event.account_id, &event.kind, payload, &event.target, event.created_at];
    Ok(tx.execute(INSERT, values).await? == 1)
}

pub(super) async fn add_all(tx: &mut dyn Tx, events: &[Event]) -> Result<(), StoreError> {
    for event in events {
        add(tx, event).await?;
    }
    Ok(())
}

pub(super) async fn claim(
    tx: &mut dyn Tx,
    claim: &OutboxClaim,
) -> Result<Vec<Delivery>, StoreError> {
    const DUE: &str = "SELECT event_id, account_id, kind, payload, target, created_at, attempts + 1
         FROM outbox WHERE done_at IS NULL AND next_attempt_at <= ?1
         ORDER BY next_attempt_at, event_id, target LIMIT ?2 /*pg: FOR UPDATE SKIP LOCKED */";
    const DUE_TO: &str = "SELECT event_id, account_id, kind, payload, target, created_at,
         attempts + 1
         FROM outbox WHERE done_at IS NULL AND next_attempt_at <= ?1 AND target = ?3
         ORDER BY next_attempt_at, event_id LIMIT ?2 /*pg: FOR UPDATE SKIP LOCKED */";
    const TAKE: &str = "UPDATE outbox SET attempts = ?3, next_attempt_at = ?4
         WHERE event_id = ?1 AND target = ?2";
    let lease = SignedDuration::try_from(claim.lease).unwrap_or(SignedDuration::MAX);
    let until = claim.now.checked_add(lease).unwrap_or(Timestamp::MAX);
    let limit = claim.limit.clamp(1, PAGE_MAX);
    let rows = match &claim.target {
        Some(target) => tx.query(DUE_TO, args![claim.now, limit, target]).await?,
        None => tx.query(DUE, args![claim.now, limit]).await?,
    };
    let due = rows.into_iter().map(|row| read(&mut row.reader()));
    let due = due.collect::<Result<Vec<_>, _>>()?;
    for delivery in &due {
        let event = &delivery.event;
        tx.execute(TAKE, args![event.id, &event.target, delivery.attempt, until]).await?;
    }
    Ok(due)
}

pub(super) async fn complete(tx: &mut dyn Tx, done: &Completion) -> Result<bool, StoreError> {
    const DELIVERED: &str = "UPDATE outbox SET done_at = ?3, delivered = 1
         WHERE event_id = ?1 AND target = ?2 AND done_at IS NULL";
    const RETRY: &str = "UPDATE outbox SET next_attempt_at = ?3
         WHERE event_id = ?1 AND target = ?2 AND attempts = ?4 AND done_at IS NULL";
    const ABANDONED: &str = "UPDATE outbox SET done_at = ?3, delivered = 0
         WHERE event_id = ?1 AND target = ?2 AND attempts = ?4 AND done_at IS NULL";
    let changed = match done.outcome {
        DeliveryOutcome::Delivered => {
            tx.execute(DELIVERED, args![done.id, &done.target, done.at]).await?
        }
        DeliveryOutcome::Retry(at) => {
            tx.execute(RETRY, args![done.id, &done.target, at, done.attempt]).await?
        }
        DeliveryOutcome::Abandoned => {
            tx.execute(ABANDONED, args![done.id, &done.target, done.at, done.attempt]).await?
        }
    };
    Ok(changed == 1)
}

pub(super) async fn prune(tx: &mut dyn Tx, before: Timestamp) -> Result<u64, StoreError> {
    const DELETE: &str = "DELETE FROM outbox WHERE done_at < ?1";
    tx.execute(DELETE, args![before]).await
}
