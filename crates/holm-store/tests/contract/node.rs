//! Nodes.

use holm_store::{Node, NodeId};

use crate::support::{Bed, at, contract};

contract! { a_node_finds_what_it_was_before }

async fn a_node_finds_what_it_was_before(bed: &Bed) {
    let store = &bed.store;
    let first = Node { id: NodeId::random().unwrap(), boot_id: "a".to_owned(), last_seen: at(0) };
    let other = Node { id: NodeId::random().unwrap(), ..first.clone() };
    assert_eq!(store.node_seen(first.clone()).await.unwrap(), None);
    assert_eq!(store.node_seen(other.clone()).await.unwrap(), None);
    let booted = Node { boot_id: "b".to_owned(), last_seen: at(9), ..first.clone() };
    assert_eq!(store.node_seen(booted.clone()).await.unwrap(), Some(first));
    let mut all = vec![booted, other];
    all.sort_by_key(|node| node.id);
    assert_eq!(store.node_list().await.unwrap(), all);
}
