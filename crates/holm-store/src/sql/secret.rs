//! Secrets of accounts.

use super::{Reader, Tx, account, args, query_int};
use crate::{AccountId, Secret, StoreError, rules};

/// A statement that selects whole secrets, as [`read`] reads them.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT account_id, name, sealed, hosts, headers, allow_plaintext, created_at, \
             updated_at FROM secrets ",
            $rest
        )
    };
}

fn read(row: &mut Reader) -> Result<Secret, StoreError> {
    Ok(Secret {
        account_id: row.id()?,
        name: row.text()?,
        sealed: row.bytes()?,
        hosts: row.json()?,
        headers: row.json()?,
        allow_plaintext: row.bool()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

fn list_text(list: &[String]) -> Result<String, StoreError> {
    serde_json::to_string(list).map_err(|error| StoreError::database("write a list as JSON", error))
}

pub(super) async fn put(tx: &mut dyn Tx, secret: &Secret, limit: u32) -> Result<bool, StoreError> {
    const UPDATE: &str = "UPDATE secrets SET sealed = ?3, hosts = ?4, headers = ?5,
         allow_plaintext = ?6, updated_at = ?7 WHERE account_id = ?1 AND name = ?2";
    const COUNT: &str = "SELECT COUNT(*) FROM secrets WHERE account_id = ?1";
    const INSERT: &str = "INSERT INTO secrets (account_id, name, sealed, hosts, headers,
         allow_plaintext, updated_at, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    // Nobody else adds one until this is over.
    account::lock(tx, secret.account_id).await?;
    let mut values = args![
        secret.account_id,
        &secret.name,
        secret.sealed.as_slice(),
        list_text(&secret.hosts)?,
        list_text(&secret.headers)?,
        secret.allow_plaintext,
        secret.updated_at
    ];
    if tx.execute(UPDATE, values.clone()).await? > 0 {
        return Ok(false);
    }
    if query_int(tx, COUNT, args![secret.account_id]).await? >= i64::from(limit) {
        return Err(rules::secrets_full(limit));
    }
    values.push(secret.created_at.into());
    tx.execute(INSERT, values).await?;
    Ok(true)
}

pub(super) async fn list(tx: &mut dyn Tx, id: AccountId) -> Result<Vec<Secret>, StoreError> {
    const LIST: &str = select!("WHERE account_id = ?1 ORDER BY name");
    let rows = tx.query(LIST, args![id]).await?;
    rows.into_iter().map(|row| read(&mut row.reader())).collect()
}

pub(super) async fn all(tx: &mut dyn Tx) -> Result<Vec<Secret>, StoreError> {
    const ALL: &str = select!("ORDER BY account_id, name");
    let rows = tx.query(ALL, args![]).await?;
    rows.into_iter().map(|row| read(&mut row.reader())).collect()
}

pub(super) async fn delete(tx: &mut dyn Tx, id: AccountId, name: &str) -> Result<bool, StoreError> {
    const DELETE: &str = "DELETE FROM secrets WHERE account_id = ?1 AND name = ?2";
    Ok(tx.execute(DELETE, args![id, name]).await? > 0)
}

pub(super) async fn reseal(
    tx: &mut dyn Tx,
    old: &Secret,
    sealed: &[u8],
) -> Result<bool, StoreError> {
    const UPDATE: &str = "UPDATE secrets SET sealed = ?4
         WHERE account_id = ?1 AND name = ?2 AND sealed = ?3";
    let values = args![old.account_id, &old.name, old.sealed.as_slice(), sealed];
    Ok(tx.execute(UPDATE, values).await? > 0)
}
