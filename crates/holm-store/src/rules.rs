//! What every store judges the same way, whatever it keeps its things in.

use jiff::{SignedDuration, Timestamp};

use crate::{
    AuditEvent, Credit, DETAIL_MAX, EntryKind, Event, Key, PAYLOAD_MAX, Record, SandboxState,
    StoreError, TOUCH_SECONDS,
};

/// Refuses texts that not every database can keep.
pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<(), StoreError> {
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(StoreError::invalid("a text must not contain the character U+0000"));
    }
    Ok(())
}

/// Whether a record can be reserved.
pub(crate) fn may_reserve(record: &Record) -> Result<(), StoreError> {
    let fresh = record.state == SandboxState::Provisioning
        && record.ready_at.is_none()
        && record.ended.is_none()
        && record.pause.turned_at.is_none();
    if !fresh {
        return Err(StoreError::invalid("only a sandbox that is provisioning can be reserved"));
    }
    if record.price_per_second < 0 || record.pause.price_per_second < 0 {
        return Err(StoreError::invalid("a price must not be below zero"));
    }
    Ok(())
}

/// Whether `new` may follow `old`.
pub(crate) fn may_follow(old: &Record, new: &Record) -> Result<(), StoreError> {
    let id = new.id;
    if old.version != new.version {
        return Err(StoreError::Stale { id });
    }
    let (from, to) = (old.state, new.state);
    if from != to && !from.may_become(to) {
        return Err(StoreError::Transition { id, from, to });
    }
    let micros = |moment: Option<Timestamp>| moment.map(Timestamp::as_microsecond);
    let end = |record: &Record| record.ended.map(|end| (end.reason, end.at.as_microsecond()));
    let ending = matches!(to, SandboxState::Deleting) || to.is_over();
    let wrong = if old.ready_at.is_some() && micros(old.ready_at) != micros(new.ready_at) {
        "the moment at which a sandbox became ready does not change"
    } else if old.ended.is_some() && end(old) != end(new) {
        "a sandbox's end does not change"
    } else if ending != new.ended.is_some() {
        "a sandbox has an end exactly from `deleting` on"
    } else if to.is_live() && new.ready_at.is_none() {
        "a running sandbox became ready at some moment"
    } else if old.ready_at.is_none() && new.ready_at.is_some() && to != SandboxState::Running {
        "a sandbox becomes ready by running"
    } else if to.is_over() && new.ended.is_some_and(|end| end.reason.final_state() != to) {
        "a sandbox rests in the state that belongs to its end"
    } else if !turns(from, to) && micros(old.pause.turned_at) != micros(new.pause.turned_at) {
        "the moment at which a sandbox was paused, or went on, changes only then"
    } else if turns(from, to)
        && new.pause.turned_at.is_none_or(|at| Some(at) < old.pause.turned_at.max(old.ready_at))
    {
        "a sandbox is paused, or goes on, at a moment after the one before"
    } else {
        return Ok(());
    };
    Err(StoreError::invalid(format!("{wrong} ({id})")))
}

/// Whether that is the beginning of a pause, or its end by going on.
fn turns(from: SandboxState, to: SandboxState) -> bool {
    from != to && from.is_live() && to.is_live()
}

/// Up to when the one that `new` follows is charged with that, at the prices of before: its end, or
/// the moment from which another price counts.
pub(crate) fn settled_by(old: &Record, new: &Record) -> Option<Timestamp> {
    match (old.ended, new.ended) {
        (None, Some(ended)) => Some(ended.at),
        _ if turns(old.state, new.state) => new.pause.turned_at,
        _ => None,
    }
}

/// Whole seconds that a charge is about, all at one price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub from: Timestamp,
    pub to: Timestamp,
    pub seconds: i64,
    /// Whether they are at the price of a pause.
    pub paused: bool,
    /// What they cost; not negative.
    pub amount: i64,
}

/// What a charge up to `until` is about, in the order of time; nothing where all of it is charged
/// already, or the sandbox never became ready. A second in which it ran, however shortly, costs what
/// one costs in which it runs: nobody pays less by many short pauses, and none is in two parts.
pub(crate) fn dues(record: &Record, until: Timestamp) -> Result<Vec<Due>, StoreError> {
    let Some(from) = record.metered_until else { return Ok(Vec::new()) };
    // Nobody pays for what comes after the end, or after the lease.
    let ends = [record.ended.map(|ended| ended.at), record.expires_at];
    let until = ends.into_iter().flatten().fold(until, Timestamp::min);
    let seconds = until.duration_since(from).as_secs().max(0);
    let paused_since =
        record.pause.turned_at.filter(|_| record.state == SandboxState::Paused).unwrap_or(until);
    let running = begun_seconds(paused_since.duration_since(from)).clamp(0, seconds);
    let mut dues = Vec::new();
    for (from, seconds, paused) in [(0, running, false), (running, seconds - running, true)] {
        if seconds > 0 {
            dues.push(due(record, from, seconds, paused)?);
        }
    }
    Ok(dues)
}

/// The whole seconds of a time, and the one that has begun.
fn begun_seconds(time: SignedDuration) -> i64 {
    time.as_secs().saturating_add(i64::from(time.subsec_nanos() > 0))
}

/// So many seconds from the mark on by `offset`.
fn due(record: &Record, offset: i64, seconds: i64, paused: bool) -> Result<Due, StoreError> {
    let mark = record.metered_until.unwrap_or_default();
    let after = |seconds: i64| {
        mark.checked_add(SignedDuration::from_secs(seconds))
            .map_err(|_| StoreError::invalid("a sandbox cannot be charged to the end of time"))
    };
    let price = if paused { record.pause.price_per_second } else { record.price_per_second };
    let amount = price.checked_mul(seconds);
    let amount = amount.ok_or_else(|| StoreError::invalid("a charge is beyond all numbers"))?;
    Ok(Due { from: after(offset)?, to: after(offset + seconds)?, seconds, paused, amount })
}

/// That an account has as many secrets as it may.
pub(crate) fn secrets_full(limit: u32) -> StoreError {
    StoreError::invalid(format!("an account has {limit} secrets at most; remove one first"))
}

/// A balance after `amount` was added.
pub(crate) fn add_up(balance: i64, amount: i64) -> Result<i64, StoreError> {
    let sum = balance.checked_add(amount);
    sum.ok_or_else(|| StoreError::invalid("a balance is beyond all numbers"))
}

/// Whether a credit is one.
pub(crate) fn may_add(credit: &Credit) -> Result<(), StoreError> {
    let allowed = match credit.kind {
        EntryKind::Topup => credit.amount > 0,
        EntryKind::Adjust => credit.amount != 0,
        EntryKind::Usage => false,
    };
    if allowed {
        return Ok(());
    }
    Err(StoreError::invalid(format!(
        "{} micro-units cannot be added as {}: a topup is above zero, an adjustment is not zero, \
         and usage comes from charging a sandbox only",
        credit.amount, credit.kind
    )))
}

/// Whether a touch at `at` would say anything new.
pub(crate) fn touch_is_due(key: &Key, at: Timestamp) -> bool {
    key.last_used_at.is_none_or(|last| at.duration_since(last).as_secs() >= TOUCH_SECONDS)
}

/// The detail of an audit event as text.
pub(crate) fn detail_text(event: &AuditEvent) -> Result<String, StoreError> {
    let detail = event.detail.to_string();
    if detail.len() > DETAIL_MAX {
        let text = format!("an audit event's detail has more than {DETAIL_MAX} bytes");
        return Err(StoreError::invalid(text));
    }
    Ok(detail)
}

/// The payload of an event as text.
pub(crate) fn payload_text(event: &Event) -> Result<String, StoreError> {
    let payload = event.payload.to_string();
    if payload.len() > PAYLOAD_MAX {
        let text = format!("an event's payload has more than {PAYLOAD_MAX} bytes");
        return Err(StoreError::invalid(text));
    }
    Ok(payload)
}
