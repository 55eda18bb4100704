//! Sandboxes: reading and saving records. Taking a place is in `reserve`.

use std::collections::BTreeMap;

use super::{
    Reader, Tx, account, args, charge, for_owner, outbox, owned, place, query_int, query_one,
};
use crate::{
    Cursor, EndReason, Ended, Event, NodeId, Owner, Page, PageQuery, Pause, Record, SandboxId,
    SandboxState, Size, SizeName, StoreError, Totals, Traffic, rules,
};

/// A statement that selects whole records, as [`read`] reads them.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, account_id, node_id, key_id, session, name, template, size, vcpus, \
             memory_mb, disk_mb, disk_inodes, max_processes, vcpus_asked, metadata, lifetime, \
             price_per_second, state, created_at, ready_at, expires_at, ended_reason, ended_at, \
             metered_until, network, secrets, bytes_out, bytes_in, connections, denied, \
             dns_queries, adoption, version, \
             paused_price, auto_pause, auto_resume, turned_at, paused_seconds \
             FROM sandboxes ",
            $rest
        )
    };
}

pub(super) fn read(row: &mut Reader) -> Result<Record, StoreError> {
    let mut record = Record {
        id: row.id()?,
        account_id: row.id()?,
        node_id: row.id()?,
        key_id: row.id_or()?,
        session: row.text_or()?,
        name: row.text_or()?,
        template: row.text()?,
        size: row.name(SizeName::read)?,
        given: Size {
            vcpus: row.number()?,
            memory_mb: row.number()?,
            disk_mb: row.number()?,
            disk_inodes: row.number()?,
            max_processes: row.number()?,
        },
        vcpus_asked: row.number()?,
        metadata: row.json()?,
        lifetime: row.duration()?,
        price_per_second: row.int()?,
        state: row.name(SandboxState::read)?,
        created_at: row.time()?,
        ready_at: row.time_or()?,
        expires_at: row.time_or()?,
        ended: read_ended(row)?,
        metered_until: row.time_or()?,
        network: row.json()?,
        secrets: row.json()?,
        traffic: read_traffic(row)?,
        adoption: row.json_or()?,
        version: row.int()?,
        pause: Pause::default(),
    };
    record.pause = Pause {
        price_per_second: row.int()?,
        after: row.duration_or()?,
        auto_resume: row.bool()?,
        turned_at: row.time_or()?,
        charged_seconds: row.int()?,
    };
    Ok(record)
}

fn read_traffic(row: &mut Reader) -> Result<Traffic, StoreError> {
    Ok(Traffic {
        bytes_out: row.number()?,
        bytes_in: row.number()?,
        connections: row.number()?,
        denied: row.number()?,
        dns_queries: row.number()?,
    })
}

fn read_ended(row: &mut Reader) -> Result<Option<Ended>, StoreError> {
    let reason = row.name_or(EndReason::read)?;
    let at = row.time_or()?;
    Ok(reason.zip(at).map(|(reason, at)| Ended { reason, at }))
}

pub(super) async fn get(
    tx: &mut dyn Tx,
    owner: Owner,
    id: SandboxId,
) -> Result<Option<Record>, StoreError> {
    const SELECT: [&str; 2] = owned!(select!("WHERE"), "AND id = ?2");
    let (sql, account) = for_owner(owner, SELECT);
    let row = query_one(tx, sql, args![account, id]).await?;
    row.map(|row| read(&mut row.reader())).transpose()
}

pub(super) async fn get_there(tx: &mut dyn Tx, id: SandboxId) -> Result<Record, StoreError> {
    get(tx, Owner::Any, id).await?.ok_or_else(|| StoreError::unknown("sandbox", &id))
}

/// Reads a record and keeps it as it is until the transaction ends.
pub(super) async fn lock(tx: &mut dyn Tx, id: SandboxId) -> Result<Record, StoreError> {
    const LOCK: &str = select!("WHERE id = ?1 /*pg: FOR NO KEY UPDATE */");
    let row = query_one(tx, LOCK, args![id]).await?;
    read(&mut row.ok_or_else(|| StoreError::unknown("sandbox", &id))?.reader())
}

pub(super) async fn forget(
    tx: &mut dyn Tx,
    id: SandboxId,
    events: &[Event],
) -> Result<bool, StoreError> {
    const KEYS: &str = "DELETE FROM idempotency WHERE sandbox_id IN
         (SELECT id FROM sandboxes WHERE id = ?1 AND state = 'provisioning')";
    const DELETE: &str = "DELETE FROM sandboxes WHERE id = ?1 AND state = 'provisioning'";
    tx.execute(KEYS, args![id]).await?;
    if tx.execute(DELETE, args![id]).await? == 0 {
        return Ok(false);
    }
    outbox::add_all(tx, events).await?;
    Ok(true)
}

pub(super) async fn save(
    tx: &mut dyn Tx,
    record: &Record,
    events: &[Event],
) -> Result<Record, StoreError> {
    const UPDATE: &str = "UPDATE sandboxes SET name = ?2, metadata = ?3, state = ?4,
         ready_at = ?5, expires_at = ?6, ended_reason = ?7, ended_at = ?8, adoption = ?9,
         network = ?10, turned_at = ?11, metered_until = COALESCE(metered_until, ?5),
         version = version + 1 WHERE id = ?1";
    let seen = get_there(tx, record.id).await?;
    if rules::settled_by(&seen, record).is_some() {
        // Money moves: the account comes before the sandbox, as everywhere.
        account::lock(tx, seen.account_id).await?;
    }
    let old = lock(tx, record.id).await?;
    if old.version != seen.version {
        // Somebody was here between the two looks.
        return Err(StoreError::Stale { id: record.id });
    }
    rules::may_follow(&old, record)?;
    if let Some(until) = rules::settled_by(&old, record) {
        charge::charge_locked(tx, record.id, until).await?;
    }
    let values = args![
        record.id,
        record.name.as_deref(),
        json_text(&record.metadata)?,
        record.state,
        record.ready_at,
        record.expires_at,
        record.ended.map(|ended| ended.reason),
        record.ended.map(|ended| ended.at),
        record.adoption.as_ref(),
        &record.network,
        record.pause.turned_at
    ];
    tx.execute(UPDATE, values).await?;
    outbox::add_all(tx, events).await?;
    get_there(tx, record.id).await
}

pub(super) fn json_text(texts: &BTreeMap<String, String>) -> Result<String, StoreError> {
    serde_json::to_string(texts).map_err(|error| StoreError::database("write texts as JSON", error))
}

pub(super) async fn traffic(
    tx: &mut dyn Tx,
    id: SandboxId,
    traffic: Traffic,
) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE sandboxes SET
         bytes_out = CASE WHEN bytes_out < ?2 THEN ?2 ELSE bytes_out END,
         bytes_in = CASE WHEN bytes_in < ?3 THEN ?3 ELSE bytes_in END,
         connections = CASE WHEN connections < ?4 THEN ?4 ELSE connections END,
         denied = CASE WHEN denied < ?5 THEN ?5 ELSE denied END,
         dns_queries = CASE WHEN dns_queries < ?6 THEN ?6 ELSE dns_queries END WHERE id = ?1";
    let Traffic { bytes_out, bytes_in, connections, denied, dns_queries } = traffic;
    let values = args![id, bytes_out, bytes_in, connections, denied, dns_queries];
    match tx.execute(UPDATE, values).await? {
        0 => Err(StoreError::unknown("sandbox", &id)),
        _ => Ok(()),
    }
}

pub(super) async fn list(
    tx: &mut dyn Tx,
    owner: Owner,
    page: &PageQuery,
    include_over: bool,
) -> Result<Page<Record>, StoreError> {
    const ALL: [&str; 2] = owned!(
        select!("WHERE"),
        "AND (created_at, id) < (?2, ?3) ORDER BY created_at DESC, id DESC LIMIT ?4"
    );
    const ALIVE: [&str; 2] = owned!(
        select!("WHERE"),
        "AND (created_at, id) < (?2, ?3) AND state NOT IN ('deleted', 'failed')
         ORDER BY created_at DESC, id DESC LIMIT ?4"
    );
    let limit = page.limit();
    let (sql, account) = for_owner(owner, if include_over { ALL } else { ALIVE });
    let (before, id) = place(page);
    let rows = tx.query(sql, args![account, before, id, limit + 1]).await?;
    let records = rows.into_iter().map(|row| read(&mut row.reader()));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(records, limit, |record| Cursor::at(record.created_at, &record.id)))
}

pub(super) async fn alive_on(tx: &mut dyn Tx, node: NodeId) -> Result<Vec<Record>, StoreError> {
    const ALIVE: &str = select!(
        "WHERE node_id = ?1 AND state NOT IN ('deleted', 'failed') ORDER BY created_at, id"
    );
    let rows = tx.query(ALIVE, args![node]).await?;
    rows.into_iter().map(|row| read(&mut row.reader())).collect()
}

pub(super) async fn alive(tx: &mut dyn Tx, owner: Owner) -> Result<u64, StoreError> {
    const COUNT: [&str; 2] =
        owned!("SELECT COUNT(*) FROM sandboxes WHERE", "AND state NOT IN ('deleted', 'failed')");
    let (sql, account) = for_owner(owner, COUNT);
    let count = query_int(tx, sql, args![account]).await?;
    Ok(count.unsigned_abs())
}

pub(super) async fn totals(tx: &mut dyn Tx, owner: Owner) -> Result<Totals, StoreError> {
    // Over means over: what is still being removed is counted with those that live.
    const SUMS: [&str; 2] = owned!(
        "SELECT COUNT(*), CAST(COALESCE(SUM(CASE
             WHEN state IN ('deleted', 'failed') AND ended_at > ready_at
             THEN ended_at - ready_at ELSE 0 END), 0) AS BIGINT),
         CAST(COALESCE(SUM(
             ((metered_until - ready_at) / 1000000 - paused_seconds) * price_per_second
             + paused_seconds * paused_price), 0) AS BIGINT),
         CAST(COALESCE(SUM(bytes_out), 0) AS BIGINT), CAST(COALESCE(SUM(bytes_in), 0) AS BIGINT),
         CAST(COALESCE(SUM(connections), 0) AS BIGINT), CAST(COALESCE(SUM(denied), 0) AS BIGINT),
         CAST(COALESCE(SUM(dns_queries), 0) AS BIGINT)
         FROM sandboxes WHERE",
        "AND ready_at IS NOT NULL"
    );
    let (sql, account) = for_owner(owner, SUMS);
    let row = query_one(tx, sql, args![account]).await?;
    let mut row = row.ok_or_else(|| StoreError::corrupt("no sums"))?.reader();
    let sandboxes = row.number()?;
    let ended_seconds = row.duration()?.as_secs_f64();
    let cost = row.int()?;
    let traffic = read_traffic(&mut row)?;
    Ok(Totals { sandboxes, ended_seconds, cost, traffic })
}
