//! Charging: the mark moves and the entry is written in one transaction, so that each second is
//! paid once.

use jiff::Timestamp;

use super::ledger::NewEntry;
use super::{Tx, account, args, ledger, sandbox};
use crate::rules::{self, Due};
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
    const MOVE: &str = "UPDATE sandboxes SET metered_until = ?2,
         paused_seconds = paused_seconds + ?3 WHERE id = ?1";
    let record = sandbox::lock(tx, id).await?;
    let balance = ledger::balance(tx, record.account_id).await?;
    let metered_until = record.metered_until;
    let mut charged = Charged { seconds: 0, amount: 0, metered_until, balance };
    for due in rules::dues(&record, until)? {
        let Due { from, to, seconds, paused, amount } = due;
        tx.execute(MOVE, args![id, to, if paused { seconds } else { 0 }]).await?;
        charged.seconds += seconds;
        charged.amount = rules::add_up(charged.amount, amount)?;
        charged.metered_until = Some(to);
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
    }
    Ok(charged)
}
