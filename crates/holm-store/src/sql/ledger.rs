//! The ledger. This file inserts and selects; no statement that changes or removes an entry
//! exists, and both databases refuse one by a trigger.

use jiff::Timestamp;

use super::{Reader, Tx, account, args, place, query_one};
use crate::{
    AccountId, Credit, Cursor, Entry, EntryId, EntryKind, LedgerCheck, Page, PageQuery, StoreError,
    Usage,
};

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, seq, kind, amount, balance_after, sandbox_id, from_at, to_at, \
             reference, created_at FROM ledger ",
            $rest
        )
    };
}

fn read(row: &mut Reader) -> Result<Entry, StoreError> {
    Ok(Entry {
        id: row.id()?,
        account_id: row.id()?,
        number: row.int()?,
        kind: row.name(EntryKind::read)?,
        amount: row.int()?,
        balance_after: row.int()?,
        usage: read_usage(row)?,
        reference: row.text_or()?,
        created_at: row.time()?,
    })
}

fn read_usage(row: &mut Reader) -> Result<Option<Usage>, StoreError> {
    let (sandbox, from, to) = (row.id_or()?, row.time_or()?, row.time_or()?);
    Ok(match (sandbox, from, to) {
        (Some(sandbox_id), Some(from), Some(to)) => Some(Usage { sandbox_id, from, to }),
        _ => None,
    })
}

/// An entry before the ledger has given it its place.
pub(super) struct NewEntry {
    pub account_id: AccountId,
    pub kind: EntryKind,
    pub amount: i64,
    pub usage: Option<Usage>,
    pub reference: Option<String>,
}

/// Adds an entry. The account is locked, so that nobody adds another one meanwhile.
pub(super) async fn append(tx: &mut dyn Tx, new: &NewEntry) -> Result<Entry, StoreError> {
    const INSERT: &str = "INSERT INTO ledger (id, account_id, seq, kind, amount,
         balance_after, sandbox_id, from_at, to_at, reference, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    const SELECT: &str = select!("WHERE id = ?1");
    let id = EntryId::random()?;
    let (number, balance) = last(tx, new.account_id).await?;
    let balance = balance
        .checked_add(new.amount)
        .ok_or_else(|| StoreError::invalid("a balance is beyond all numbers"))?;
    let values = args![
        id,
        new.account_id,
        number + 1,
        new.kind,
        new.amount,
        balance,
        new.usage.map(|usage| usage.sandbox_id),
        new.usage.map(|usage| usage.from),
        new.usage.map(|usage| usage.to),
        new.reference.as_deref(),
        Timestamp::now()
    ];
    tx.execute(INSERT, values).await?;
    let row = query_one(tx, SELECT, args![id]).await?;
    read(&mut row.ok_or_else(|| StoreError::corrupt("an entry went missing"))?.reader())
}

pub(super) async fn add(tx: &mut dyn Tx, credit: &Credit) -> Result<Entry, StoreError> {
    let allowed = match credit.kind {
        EntryKind::Topup => credit.amount > 0,
        EntryKind::Adjust => credit.amount != 0,
        EntryKind::Usage => false,
    };
    if !allowed {
        return Err(StoreError::invalid(format!(
            "{} micro-units cannot be added as {}: a topup is above zero, an adjustment is not \
             zero, and usage comes from charging a sandbox only",
            credit.amount, credit.kind
        )));
    }
    account::lock(tx, credit.account_id).await?;
    if let Some(before) = referred(tx, credit).await? {
        if (before.kind, before.amount) != (credit.kind, credit.amount) {
            return Err(StoreError::exists("ledger reference", &reference_text(credit)));
        }
        return Ok(before);
    }
    let entry = NewEntry {
        account_id: credit.account_id,
        kind: credit.kind,
        amount: credit.amount,
        usage: None,
        reference: credit.reference.clone(),
    };
    append(tx, &entry).await
}

fn reference_text(credit: &Credit) -> &str {
    credit.reference.as_deref().unwrap_or_default()
}

/// The entry that has the credit's reference already.
async fn referred(tx: &mut dyn Tx, credit: &Credit) -> Result<Option<Entry>, StoreError> {
    const SELECT: &str = select!("WHERE account_id = ?1 AND reference = ?2");
    let Some(reference) = &credit.reference else { return Ok(None) };
    let row = query_one(tx, SELECT, args![credit.account_id, reference]).await?;
    row.map(|row| read(&mut row.reader())).transpose()
}

/// Number and balance of the last entry.
async fn last(tx: &mut dyn Tx, id: AccountId) -> Result<(i64, i64), StoreError> {
    const LAST: &str = "SELECT seq, balance_after FROM ledger
         WHERE account_id = ?1 ORDER BY seq DESC LIMIT 1";
    let Some(row) = query_one(tx, LAST, args![id]).await? else { return Ok((0, 0)) };
    let mut row = row.reader();
    Ok((row.int()?, row.int()?))
}

pub(super) async fn balance(tx: &mut dyn Tx, id: AccountId) -> Result<i64, StoreError> {
    last(tx, id).await.map(|(_, balance)| balance)
}

/// The balance of an account that must exist.
pub(super) async fn balance_of(tx: &mut dyn Tx, id: AccountId) -> Result<i64, StoreError> {
    if account::get(tx, id).await?.is_none() {
        return Err(StoreError::unknown("account", &id));
    }
    balance(tx, id).await
}

pub(super) async fn check(tx: &mut dyn Tx, id: AccountId) -> Result<LedgerCheck, StoreError> {
    // One statement, so that it is one moment in both databases.
    const SUM: &str = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT), COUNT(*),
         COALESCE((SELECT balance_after FROM ledger WHERE account_id = ?1
                   ORDER BY seq DESC LIMIT 1), 0)
         FROM ledger WHERE account_id = ?1";
    if account::get(tx, id).await?.is_none() {
        return Err(StoreError::unknown("account", &id));
    }
    let row = query_one(tx, SUM, args![id]).await?;
    let mut row = row.ok_or_else(|| StoreError::corrupt("no sum"))?.reader();
    let (sum, entries) = (row.int()?, row.number()?);
    Ok(LedgerCheck { sum, balance: row.int()?, entries })
}

pub(super) async fn list(
    tx: &mut dyn Tx,
    id: AccountId,
    page: &PageQuery,
) -> Result<Page<Entry>, StoreError> {
    const LIST: &str = select!("WHERE account_id = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3");
    let limit = page.limit();
    let (before, _) = place(page);
    let rows = tx.query(LIST, args![id, before, limit + 1]).await?;
    let entries = rows.into_iter().map(|row| read(&mut row.reader()));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(entries, limit, |entry| Cursor { place: entry.number, id: entry.id.to_string() }))
}
