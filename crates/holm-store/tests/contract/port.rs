//! Ports of sandboxes.

use std::time::Duration;

use holm_store::{OutboxClaim, PORTS_MAX, Port, SandboxId};

use crate::support::{Bed, at, both, contract, event, kind, record, running};

contract! {
    a_port_is_put_once_and_changed_by_the_next_put there_are_only_so_many ports_need_a_sandbox
    what_happens_is_told_with_it
}

fn port(sandbox_id: SandboxId, port: u16) -> Port {
    Port { sandbox_id, port, public: false, extend_lease: false, created_at: at(0) }
}

async fn a_port_is_put_once_and_changed_by_the_next_put(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let id = running(&**store, record(place), 0).await.id;
    let other = running(&**store, record(place), 0).await.id;
    let first = port(id, 8080);
    assert_eq!(store.port_put(first.clone(), Vec::new()).await.unwrap(), first);
    let last = port(id, u16::MAX);
    store.port_put(last.clone(), Vec::new()).await.unwrap();
    store.port_put(port(other, 8080), Vec::new()).await.unwrap();
    // It stays the same one: what was signed for it still is for it.
    let changed = Port { public: true, extend_lease: true, created_at: at(9), ..first.clone() };
    let want = Port { created_at: at(0), ..changed.clone() };
    assert_eq!(store.port_put(changed, Vec::new()).await.unwrap(), want);
    assert_eq!(store.port_list(id).await.unwrap(), [want, last.clone()]);
    assert!(store.port_remove(id, 8080, Vec::new()).await.unwrap());
    assert!(!store.port_remove(id, 8080, Vec::new()).await.unwrap());
    assert_eq!(store.port_list(id).await.unwrap(), [last]);
    assert_eq!(store.port_list(other).await.unwrap(), [port(other, 8080)]);
}

async fn there_are_only_so_many(bed: &Bed) {
    let store = &bed.store;
    let id = running(&**store, record(both(&**store).await), 0).await.id;
    let numbers = 1..=u16::try_from(PORTS_MAX).unwrap();
    for number in numbers.clone() {
        store.port_put(port(id, number), Vec::new()).await.unwrap();
    }
    assert_eq!(kind(&store.port_put(port(id, 9999), Vec::new()).await), "PortsFull");
    // One that is there takes no further place.
    store.port_put(port(id, 1), Vec::new()).await.unwrap();
    store.port_remove(id, 1, Vec::new()).await.unwrap();
    store.port_put(port(id, 9999), Vec::new()).await.unwrap();
}

async fn ports_need_a_sandbox(bed: &Bed) {
    let store = &bed.store;
    let id = SandboxId::random().unwrap();
    assert_eq!(kind(&store.port_put(port(id, 1), Vec::new()).await), "Unknown");
    assert_eq!(store.port_list(id).await.unwrap(), []);
    assert!(!store.port_remove(id, 1, Vec::new()).await.unwrap());
}

async fn what_happens_is_told_with_it(bed: &Bed) {
    let store = &bed.store;
    let sandbox = running(&**store, record(both(&**store).await), 0).await;
    let told = |target: &str| vec![event(sandbox.account_id, target)];
    store.port_put(port(sandbox.id, 1), told("put")).await.unwrap();
    assert!(store.port_remove(sandbox.id, 1, told("removed")).await.unwrap());
    assert!(!store.port_remove(sandbox.id, 1, told("not there")).await.unwrap());
    let claim = OutboxClaim { now: at(1), lease: Duration::from_secs(9), limit: 9, target: None };
    let claimed = store.outbox_claim(claim).await.unwrap();
    let mut targets: Vec<_> = claimed.iter().map(|one| &*one.event.target).collect();
    targets.sort_unstable();
    assert_eq!(targets, ["put", "removed"]);
}
