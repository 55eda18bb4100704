//! Audit events.

use super::{Reader, Tx, args, for_owner, owned, place};
use crate::audit::{AuditEvent, DETAIL_MAX, Outcome};
use crate::{Cursor, Owner, Page, PageQuery, StoreError};

fn read(row: &mut Reader) -> Result<AuditEvent, StoreError> {
    Ok(AuditEvent {
        id: row.id()?,
        at: row.time()?,
        account_id: row.id_or()?,
        key_id: row.id_or()?,
        action: row.text()?,
        target: row.text_or()?,
        outcome: row.name(Outcome::read)?,
        detail: row.json()?,
    })
}

pub(super) async fn add(tx: &mut dyn Tx, event: &AuditEvent) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO audit
         (id, at, account_id, key_id, action, target, outcome, detail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    let detail = event.detail.to_string();
    if detail.len() > DETAIL_MAX {
        let text = format!("an audit event's detail has more than {DETAIL_MAX} bytes");
        return Err(StoreError::invalid(text));
    }
    let values = args![
        event.id,
        event.at,
        event.account_id,
        event.key_id,
        &event.action,
        event.target.as_deref(),
        event.outcome,
        detail
    ];
    if tx.execute(INSERT, values).await? == 0 {
        return Err(StoreError::exists("audit event", &event.id));
    }
    Ok(())
}

pub(super) async fn list(
    tx: &mut dyn Tx,
    owner: Owner,
    page: &PageQuery,
) -> Result<Page<AuditEvent>, StoreError> {
    const LIST: [&str; 2] = owned!(
        "SELECT id, at, account_id, key_id, action, target, outcome, detail FROM audit WHERE",
        "AND (at, id) < (?2, ?3) ORDER BY at DESC, id DESC LIMIT ?4"
    );
    let limit = page.limit();
    let (sql, account) = for_owner(owner, LIST);
    let (before, id) = place(page);
    let rows = tx.query(sql, args![account, before, id, limit + 1]).await?;
    let events = rows.into_iter().map(|row| read(&mut row.reader()));
    let events = events.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(events, limit, |event| Cursor::at(event.at, &event.id)))
}
