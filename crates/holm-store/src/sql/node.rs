//! Nodes.

use super::{Reader, Tx, args, query_one};
use crate::{Node, NodeId, StoreError};

fn read(row: &mut Reader) -> Result<Node, StoreError> {
    Ok(Node { id: row.id()?, boot_id: row.text()?, last_seen: row.time()? })
}

pub(super) async fn seen(tx: &mut dyn Tx, node: &Node) -> Result<Option<Node>, StoreError> {
    const SELECT: &str =
        "SELECT id, boot_id, last_seen FROM nodes WHERE id = ?1 /*pg: FOR NO KEY UPDATE */";
    const UPSERT: &str = "INSERT INTO nodes (id, boot_id, last_seen) VALUES (?1, ?2, ?3)
         ON CONFLICT (id) DO UPDATE
         SET boot_id = excluded.boot_id, last_seen = excluded.last_seen";
    let before = query_one(tx, SELECT, args![node.id]).await?;
    tx.execute(UPSERT, args![node.id, &node.boot_id, node.last_seen]).await?;
    before.map(|row| read(&mut row.reader())).transpose()
}

pub(super) async fn list(tx: &mut dyn Tx) -> Result<Vec<Node>, StoreError> {
    const LIST: &str = "SELECT id, boot_id, last_seen FROM nodes ORDER BY id";
    tx.query(LIST, args![]).await?.into_iter().map(|row| read(&mut row.reader())).collect()
}

/// Keeps everybody else from taking a place on the node until the transaction ends.
pub(super) async fn lock(tx: &mut dyn Tx, id: NodeId) -> Result<(), StoreError> {
    const LOCK: &str = "SELECT 1 FROM nodes WHERE id = ?1 /*pg: FOR NO KEY UPDATE */";
    match query_one(tx, LOCK, args![id]).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::unknown("node", &id)),
    }
}
