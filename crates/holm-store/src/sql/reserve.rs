//! Taking a place for a create: everything that may forbid it is judged in the transaction that
//! takes the place.

use jiff::{SignedDuration, Timestamp};

use super::{Tx, account, args, key, ledger, node, outbox, query_int, query_one, sandbox};
use crate::record::{IDEMPOTENCY_LIFE, Idempotency, Record, Reservation, Reserved};
use crate::{AccountId, Owner, StoreError, rules};

pub(super) async fn reserve(tx: &mut dyn Tx, wanted: &Reservation) -> Result<Reserved, StoreError> {
    let record = &wanted.record;
    rules::may_reserve(record)?;
    let account = account::lock(tx, record.account_id).await?;
    if account.disabled_at.is_some() {
        return Err(StoreError::AccountDisabled { id: account.id });
    }
    if let Some(key_id) = record.key_id {
        key::check_usable(tx, account.id, key_id, record.created_at).await?;
    }
    if let Some(idempotency) = &wanted.idempotency
        && let Some(before) = made_before(tx, account.id, idempotency, record.created_at).await?
    {
        return Ok(Reserved::Existing(before));
    }
    node::lock(tx, record.node_id).await?;
    let limit = account.limits.max_sandboxes.unwrap_or(wanted.account_limit);
    if sandbox::alive(tx, Owner::Account(account.id)).await? >= u64::from(limit) {
        return Err(StoreError::AccountFull { limit });
    }
    if alive_on(tx, record).await? >= i64::from(wanted.node_limit) {
        return Err(StoreError::NodeFull { limit: wanted.node_limit });
    }
    if record.price_per_second > 0 {
        let balance = ledger::balance(tx, account.id).await?;
        if balance <= 0 {
            return Err(StoreError::BalanceEmpty { balance });
        }
    }
    insert(tx, record).await?;
    if let Some(idempotency) = &wanted.idempotency {
        remember(tx, idempotency, record).await?;
    }
    outbox::add_all(tx, &wanted.events).await?;
    Ok(Reserved::New(sandbox::get_there(tx, record.id).await?))
}

async fn alive_on(tx: &mut dyn Tx, record: &Record) -> Result<i64, StoreError> {
    const COUNT: &str = "SELECT COUNT(*) FROM sandboxes
         WHERE node_id = ?1 AND state NOT IN ('deleted', 'failed')";
    query_int(tx, COUNT, args![record.node_id]).await
}

async fn insert(tx: &mut dyn Tx, record: &Record) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO sandboxes (id, account_id, node_id, key_id, session, name,
         template, size, vcpus, memory_mb, disk_mb, disk_inodes, max_processes, vcpus_asked,
         metadata, lifetime, price_per_second, state, created_at, expires_at, adoption, network,
         secrets, paused_price, auto_pause, auto_resume, version)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
         ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, 1) ON CONFLICT DO NOTHING";
    let given = record.given;
    let values = args![
        record.id,
        record.account_id,
        record.node_id,
        record.key_id,
        record.session.as_deref(),
        record.name.as_deref(),
        &record.template,
        record.size,
        given.vcpus,
        given.memory_mb,
        given.disk_mb,
        given.disk_inodes,
        given.max_processes,
        record.vcpus_asked,
        sandbox::json_text(&record.metadata)?,
        record.lifetime,
        record.price_per_second,
        record.state,
        record.created_at,
        record.expires_at,
        record.adoption.as_ref(),
        &record.network,
        sandbox::json_text(&record.secrets)?,
        record.pause.price_per_second,
        record.pause.after,
        record.pause.auto_resume
    ];
    if tx.execute(INSERT, values).await? == 0 {
        return Err(StoreError::exists("sandbox", &record.id));
    }
    Ok(())
}

/// What this idempotency key has made, if it did. Keys whose time is over are dropped on the way.
async fn made_before(
    tx: &mut dyn Tx,
    account: AccountId,
    idempotency: &Idempotency,
    now: Timestamp,
) -> Result<Option<Record>, StoreError> {
    const DROP: &str = "DELETE FROM idempotency WHERE account_id = ?1 AND expires_at <= ?2";
    const SELECT: &str =
        "SELECT fingerprint, sandbox_id FROM idempotency WHERE account_id = ?1 AND key = ?2";
    tx.execute(DROP, args![account, now]).await?;
    let row = query_one(tx, SELECT, args![account, &idempotency.key]).await?;
    let Some(row) = row else { return Ok(None) };
    let mut row = row.reader();
    if row.text()? != idempotency.fingerprint {
        return Err(StoreError::IdempotencyReused { key: idempotency.key.clone() });
    }
    let id = row.id()?;
    sandbox::get_there(tx, id).await.map(Some)
}

async fn remember(
    tx: &mut dyn Tx,
    idempotency: &Idempotency,
    record: &Record,
) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO idempotency
         (account_id, key, fingerprint, sandbox_id, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let life = SignedDuration::try_from(IDEMPOTENCY_LIFE).unwrap_or(SignedDuration::MAX);
    let until = record.created_at.checked_add(life).unwrap_or(Timestamp::MAX);
    let (key, mark) = (&idempotency.key, &idempotency.fingerprint);
    tx.execute(INSERT, args![record.account_id, key, mark, record.id, until]).await?;
    Ok(())
}
