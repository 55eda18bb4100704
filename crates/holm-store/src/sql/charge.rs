//! Charging: the mark moves and the entry is written in one transaction, so that each second is
//! paid once.

use jiff::{SignedDuration, Timestamp};

use super::ledger::NewEntry;
use super::{Tx, account, args, ledger, sandbox};
use crate::{Charged, EntryKind, SandboxId, StoreError, Usage};

pub(super) async fn charge(
    tx: &mut dyn Tx,
    id: SandboxId,
    until: Timestamp,
) -> Result<Charged, StoreError> {
    let account_id = sandbox::get_there(tx, id).await?.account_id;
    account::lock(tx, account_id).await?;
    charge_locked(tx, id, until).await
}

/// The same where the account is locked already.
pub(super) async fn charge_locked(
    tx: &mut dyn Tx,
    id: SandboxId,
    until: Timestamp,
) -> Result<Charged, StoreError> {
    const MOVE: &str = "UPDATE sandboxes SET metered_until = ?2 WHERE id = ?1";
    let record = sandbox::lock(tx, id).await?;
    let balance = ledger::balance(tx, record.account_id).await?;
    let nothing = Charged { seconds: 0, amount: 0, metered_until: record.metered_until, balance };
    let Some(from) = record.metered_until else { return Ok(nothing) };
    // Nobody pays for what comes after the end, or after the lease.
    let ends = [record.ended.map(|ended| ended.at), record.expires_at];
    let until = ends.into_iter().flatten().fold(until, Timestamp::min);
    let seconds = until.duration_since(from).as_secs();
    if seconds <= 0 {
        return Ok(nothing);
    }
    let to = from
        .checked_add(SignedDuration::from_secs(seconds))
        .map_err(|_| StoreError::invalid("a sandbox cannot be charged to the end of time"))?;
    let amount = record
        .price_per_second
        .checked_mul(seconds)
        .ok_or_else(|| StoreError::invalid("a charge is beyond all numbers"))?;
    tx.execute(MOVE, args![id, to]).await?;
    let mut charged = Charged { seconds, amount, metered_until: Some(to), balance };
    if amount != 0 {
        let entry = NewEntry {
            account_id: record.account_id,
            kind: EntryKind::Usage,
            amount: -amount,
            usage: Some(Usage { sandbox_id: id, from, to }),
            reference: None,
        };
        charged.balance = ledger::append(tx, &entry).await?.balance_after;
    }
    Ok(charged)
}
