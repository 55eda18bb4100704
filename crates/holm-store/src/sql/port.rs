//! Ports.

use super::{Reader, Tx, args, outbox, query_int, query_one, sandbox};
use crate::{Event, PORTS_MAX, Port, SandboxId, StoreError};

fn read(row: &mut Reader) -> Result<Port, StoreError> {
    Ok(Port {
        sandbox_id: row.id()?,
        port: row.number()?,
        public: row.int()? != 0,
        extend_lease: row.int()? != 0,
        created_at: row.time()?,
    })
}

pub(super) async fn put(
    tx: &mut dyn Tx,
    port: &Port,
    events: &[Event],
) -> Result<Port, StoreError> {
    const UPDATE: &str = "UPDATE ports SET public = ?3, extend_lease = ?4
         WHERE sandbox_id = ?1 AND port = ?2";
    const COUNT: &str = "SELECT COUNT(*) FROM ports WHERE sandbox_id = ?1";
    const INSERT: &str = "INSERT INTO ports (sandbox_id, port, public, extend_lease, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)";
    const SELECT: &str = "SELECT sandbox_id, port, public, extend_lease, created_at FROM ports
         WHERE sandbox_id = ?1 AND port = ?2";
    let id = port.sandbox_id;
    sandbox::lock(tx, id).await?;
    let number = u32::from(port.port);
    let (public, extend) = (i64::from(port.public), i64::from(port.extend_lease));
    if tx.execute(UPDATE, args![id, number, public, extend]).await? == 0 {
        if query_int(tx, COUNT, args![id]).await? >= i64::from(PORTS_MAX) {
            return Err(StoreError::PortsFull { limit: PORTS_MAX });
        }
        tx.execute(INSERT, args![id, number, public, extend, port.created_at]).await?;
    }
    outbox::add_all(tx, events).await?;
    let row = query_one(tx, SELECT, args![id, number]).await?;
    read(&mut row.ok_or_else(|| StoreError::corrupt("a port is not there"))?.reader())
}

pub(super) async fn remove(
    tx: &mut dyn Tx,
    id: SandboxId,
    number: u16,
    events: &[Event],
) -> Result<bool, StoreError> {
    const DELETE: &str = "DELETE FROM ports WHERE sandbox_id = ?1 AND port = ?2";
    if tx.execute(DELETE, args![id, u32::from(number)]).await? == 0 {
        return Ok(false);
    }
    outbox::add_all(tx, events).await?;
    Ok(true)
}

pub(super) async fn list(tx: &mut dyn Tx, id: SandboxId) -> Result<Vec<Port>, StoreError> {
    const LIST: &str = "SELECT sandbox_id, port, public, extend_lease, created_at FROM ports
         WHERE sandbox_id = ?1 ORDER BY port";
    tx.query(LIST, args![id]).await?.into_iter().map(|row| read(&mut row.reader())).collect()
}
