//! API keys.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Reader, Tx, args, for_owner, owned, place, query_one};
use crate::key::{Key, KeyHash, KeyScope};
use crate::{Account, AccountId, Cursor, KeyId, Owner, Page, PageQuery, StoreError};

fn read(row: &mut Reader) -> Result<Key, StoreError> {
    Ok(Key {
        id: row.id()?,
        account_id: row.id()?,
        name: row.text()?,
        prefix: row.text()?,
        scopes: row.name(read_scopes)?,
        created_at: row.time()?,
        expires_at: row.time_or()?,
        last_used_at: row.time_or()?,
        revoked_at: row.time_or()?,
    })
}

/// Scopes are kept as their names with spaces between.
fn read_scopes(text: &str) -> Option<BTreeSet<KeyScope>> {
    text.split_whitespace().map(KeyScope::read).collect()
}

fn scopes_text(scopes: &BTreeSet<KeyScope>) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")
}

pub(super) async fn create(tx: &mut dyn Tx, key: &Key, hash: KeyHash) -> Result<Key, StoreError> {
    const INSERT: &str = "INSERT INTO api_keys (id, account_id, hash, name, prefix, scopes,
         created_at, expires_at, last_used_at, revoked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    if super::account::get(tx, key.account_id).await?.is_none() {
        return Err(StoreError::unknown("account", &key.account_id));
    }
    let values = args![
        key.id,
        key.account_id,
        hash.0,
        &key.name,
        &key.prefix,
        scopes_text(&key.scopes),
        key.created_at,
        key.expires_at,
        key.last_used_at,
        key.revoked_at
    ];
    if tx.execute(INSERT, values).await? == 0 {
        return Err(StoreError::exists("key", &key.id));
    }
    get_there(tx, Owner::Any, key.id).await
}

pub(super) async fn by_hash(
    tx: &mut dyn Tx,
    hash: KeyHash,
) -> Result<Option<(Key, Account)>, StoreError> {
    const SELECT: &str = "SELECT k.id, k.account_id, k.name, k.prefix, k.scopes, k.created_at,
         k.expires_at, k.last_used_at, k.revoked_at,
         a.id, a.name, a.created_at, a.max_sandboxes, a.max_lifetime, a.network,
         a.disabled_at
         FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.hash = ?1";
    let Some(row) = query_one(tx, SELECT, args![hash.0]).await? else { return Ok(None) };
    let mut row = row.reader();
    Ok(Some((read(&mut row)?, super::account::read(&mut row)?)))
}

pub(super) async fn get(
    tx: &mut dyn Tx,
    owner: Owner,
    id: KeyId,
) -> Result<Option<Key>, StoreError> {
    const SELECT: [&str; 2] = owned!(
        "SELECT id, account_id, name, prefix, scopes, created_at, expires_at, last_used_at,
         revoked_at FROM api_keys WHERE",
        "AND id = ?2"
    );
    let (sql, account) = for_owner(owner, SELECT);
    let row = query_one(tx, sql, args![account, id]).await?;
    row.map(|row| read(&mut row.reader())).transpose()
}

async fn get_there(tx: &mut dyn Tx, owner: Owner, id: KeyId) -> Result<Key, StoreError> {
    get(tx, owner, id).await?.ok_or_else(|| StoreError::unknown("key", &id))
}

pub(super) async fn list(
    tx: &mut dyn Tx,
    owner: Owner,
    page: &PageQuery,
) -> Result<Page<Key>, StoreError> {
    const LIST: [&str; 2] = owned!(
        "SELECT id, account_id, name, prefix, scopes, created_at, expires_at, last_used_at,
         revoked_at FROM api_keys WHERE",
        "AND (created_at, id) < (?2, ?3) ORDER BY created_at DESC, id DESC LIMIT ?4"
    );
    let limit = page.limit();
    let (sql, account) = for_owner(owner, LIST);
    let (before, id) = place(page);
    let rows = tx.query(sql, args![account, before, id, limit + 1]).await?;
    let keys = rows.into_iter().map(|row| read(&mut row.reader()));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(keys, limit, |key| Cursor::at(key.created_at, &key.id)))
}

pub(super) async fn revoke(
    tx: &mut dyn Tx,
    owner: Owner,
    id: KeyId,
    at: Timestamp,
) -> Result<Key, StoreError> {
    const UPDATE: [&str; 2] =
        owned!("UPDATE api_keys SET revoked_at = ?3 WHERE", "AND id = ?2 AND revoked_at IS NULL");
    let (sql, account) = for_owner(owner, UPDATE);
    tx.execute(sql, args![account, id, at]).await?;
    get_there(tx, owner, id).await
}

pub(super) async fn touch(tx: &mut dyn Tx, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE api_keys SET last_used_at = ?2
         WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
    tx.execute(UPDATE, args![id, at]).await?;
    Ok(())
}

/// Fails unless the key works at `now`, and keeps it from being revoked until the transaction
/// ends.
pub(super) async fn check_usable(
    tx: &mut dyn Tx,
    account: AccountId,
    id: KeyId,
    now: Timestamp,
) -> Result<(), StoreError> {
    const LOCK: &str = "SELECT revoked_at, expires_at
         FROM api_keys WHERE id = ?1 AND account_id = ?2 /*pg: FOR SHARE */";
    let row = query_one(tx, LOCK, args![id, account]).await?;
    let mut row = row.ok_or_else(|| StoreError::unknown("key", &id))?.reader();
    let revoked = row.time_or()?.is_some();
    let expired = row.time_or()?.is_some_and(|end| now >= end);
    if revoked || expired {
        return Err(StoreError::KeyUnusable { id });
    }
    Ok(())
}
