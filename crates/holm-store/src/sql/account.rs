//! Accounts.

use jiff::Timestamp;

use super::{Reader, Tx, args, place, query_one};
use crate::{Account, AccountId, AccountLimits, Cursor, Page, PageQuery, StoreError};

/// Reads what [`SELECT`] and the like select for an account.
pub(super) fn read(row: &mut Reader) -> Result<Account, StoreError> {
    Ok(Account {
        id: row.id()?,
        name: row.text()?,
        created_at: row.time()?,
        limits: AccountLimits {
            max_sandboxes: row.number_or()?,
            max_lifetime: row.duration_or()?,
            network: row.json_or()?,
        },
        disabled_at: row.time_or()?,
    })
}

const SELECT: &str =
    "SELECT id, name, created_at, max_sandboxes, max_lifetime, network, disabled_at
     FROM accounts WHERE id = ?1";

pub(super) async fn get(tx: &mut dyn Tx, id: AccountId) -> Result<Option<Account>, StoreError> {
    query_one(tx, SELECT, args![id]).await?.map(|row| read(&mut row.reader())).transpose()
}

async fn get_there(tx: &mut dyn Tx, id: AccountId) -> Result<Account, StoreError> {
    get(tx, id).await?.ok_or_else(|| StoreError::unknown("account", &id))
}

/// Reads an account and keeps everybody else from moving its money or taking its places until
/// the transaction ends.
pub(super) async fn lock(tx: &mut dyn Tx, id: AccountId) -> Result<Account, StoreError> {
    const LOCK: &str =
        "SELECT id, name, created_at, max_sandboxes, max_lifetime, network, disabled_at
         FROM accounts WHERE id = ?1 /*pg: FOR NO KEY UPDATE */";
    let row = query_one(tx, LOCK, args![id]).await?;
    let row = row.ok_or_else(|| StoreError::unknown("account", &id))?;
    read(&mut row.reader())
}

pub(super) async fn create(tx: &mut dyn Tx, account: &Account) -> Result<Account, StoreError> {
    const INSERT: &str = "INSERT INTO accounts
         (id, name, created_at, max_sandboxes, max_lifetime, network, disabled_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
    let limits = &account.limits;
    let values = args![
        account.id,
        &account.name,
        account.created_at,
        limits.max_sandboxes,
        limits.max_lifetime,
        limits.network.as_ref(),
        account.disabled_at
    ];
    if tx.execute(INSERT, values).await? == 0 {
        return Err(StoreError::exists("account", &account.id));
    }
    get_there(tx, account.id).await
}

pub(super) async fn list(tx: &mut dyn Tx, page: &PageQuery) -> Result<Page<Account>, StoreError> {
    const LIST: &str =
        "SELECT id, name, created_at, max_sandboxes, max_lifetime, network, disabled_at
         FROM accounts WHERE (created_at, id) < (?1, ?2)
         ORDER BY created_at DESC, id DESC LIMIT ?3";
    let limit = page.limit();
    let (before, id) = place(page);
    let rows = tx.query(LIST, args![before, id, limit + 1]).await?;
    let accounts = rows.into_iter().map(|row| read(&mut row.reader()));
    let accounts = accounts.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(accounts, limit, |account| Cursor::at(account.created_at, &account.id)))
}

pub(super) async fn set_limits(
    tx: &mut dyn Tx,
    id: AccountId,
    limits: &AccountLimits,
) -> Result<Account, StoreError> {
    const UPDATE: &str = "UPDATE accounts SET max_sandboxes = ?2, max_lifetime = ?3, network = ?4
         WHERE id = ?1";
    let network = limits.network.as_ref();
    tx.execute(UPDATE, args![id, limits.max_sandboxes, limits.max_lifetime, network]).await?;
    get_there(tx, id).await
}

pub(super) async fn set_disabled(
    tx: &mut dyn Tx,
    id: AccountId,
    disabled_at: Option<Timestamp>,
) -> Result<Account, StoreError> {
    const UPDATE: &str = "UPDATE accounts SET disabled_at = ?2 WHERE id = ?1";
    tx.execute(UPDATE, args![id, disabled_at]).await?;
    get_there(tx, id).await
}
