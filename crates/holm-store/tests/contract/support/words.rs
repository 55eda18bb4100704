//! Things as tests need them.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_store::{
    Account, AccountId, Credit, EndReason, Ended, EntryKind, Event, EventId, Key, KeyHash,
    KeyHasher, KeyId, KeyScope, KeyText, Node, NodeId, Pause, Record, Reservation, Reserved,
    SandboxId, SandboxState, Size, SizeName, Store, StoreError, Traffic,
};
use jiff::Timestamp;

/// A moment: `second` seconds after the beginning of the tests' time.
pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

pub async fn account(store: &dyn Store) -> AccountId {
    let account = Account::new(AccountId::random().unwrap(), "somebody");
    store.account_create(account).await.unwrap().id
}

pub async fn node(store: &dyn Store) -> NodeId {
    let node = Node { id: NodeId::random().unwrap(), boot_id: "one".to_owned(), last_seen: at(0) };
    assert_eq!(store.node_seen(node.clone()).await.unwrap(), None);
    node.id
}

/// An account and a node.
pub async fn both(store: &dyn Store) -> (AccountId, NodeId) {
    (account(store).await, node(store).await)
}

pub fn key(account_id: AccountId) -> (Key, KeyHash, KeyText) {
    let text = KeyText::random().unwrap();
    let key = Key {
        id: KeyId::random().unwrap(),
        account_id,
        name: "laptop".to_owned(),
        prefix: text.prefix().to_owned(),
        scopes: [KeyScope::Read, KeyScope::Sandboxes].into(),
        created_at: at(0),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    let hash = KeyHasher::new(&[7; 32]).hash(text.reveal());
    (key, hash, text)
}

pub fn record((account_id, node_id): (AccountId, NodeId)) -> Record {
    Record {
        id: SandboxId::random().unwrap(),
        account_id,
        node_id,
        key_id: None,
        session: Some("a session".to_owned()),
        name: Some("a name".to_owned()),
        template: "base".to_owned(),
        size: SizeName::Medium,
        given: Size {
            vcpus: 2,
            memory_mb: 4096,
            disk_mb: 8192,
            disk_inodes: 1 << 19,
            max_processes: 1024,
        },
        vcpus_asked: 4,
        metadata: BTreeMap::from([("task".to_owned(), "ünï \"1\"".to_owned())]),
        lifetime: Duration::from_secs(900),
        price_per_second: 0,
        pause: Pause::default(),
        state: SandboxState::Provisioning,
        created_at: at(0),
        ready_at: None,
        expires_at: None,
        ended: None,
        metered_until: None,
        network: serde_json::json!({"mode": "open", "deny": ["*.example.com"]}),
        secrets: BTreeMap::from([("TOKEN".to_owned(), "holm_ph_1".to_owned())]),
        traffic: Traffic::default(),
        adoption: None,
        version: 0,
    }
}

pub fn reservation(record: Record) -> Reservation {
    Reservation {
        record,
        account_limit: 20,
        node_limit: 100,
        idempotency: None,
        events: Vec::new(),
    }
}

pub async fn reserve(store: &dyn Store, record: Record) -> Record {
    match store.sandbox_reserve(reservation(record)).await.unwrap() {
        Reserved::New(record) => record,
        Reserved::Existing(record) => panic!("{record:?} exists"),
    }
}

/// Runs from `second` on, with a lease of 900 seconds.
pub fn ready(mut record: Record, second: i64) -> Record {
    record.state = SandboxState::Running;
    record.ready_at = Some(at(second));
    record.expires_at = Some(at(second + 900));
    record
}

pub async fn running(store: &dyn Store, record: Record, second: i64) -> Record {
    let reserved = reserve(store, record).await;
    store.sandbox_save(ready(reserved, second), Vec::new()).await.unwrap()
}

/// On its way out since `second`.
pub fn ending(mut record: Record, reason: EndReason, second: i64) -> Record {
    record.state = SandboxState::Deleting;
    record.ended = Some(Ended { reason, at: at(second) });
    record
}

/// Ends it completely.
pub async fn end(store: &dyn Store, record: Record, reason: EndReason, second: i64) -> Record {
    let mut record = store.sandbox_save(ending(record, reason, second), Vec::new()).await.unwrap();
    record.state = reason.final_state();
    store.sandbox_save(record, Vec::new()).await.unwrap()
}

pub fn topup(account_id: AccountId, amount: i64) -> Credit {
    Credit { account_id, kind: EntryKind::Topup, amount, reference: None }
}

pub fn event(account_id: AccountId, target: &str) -> Event {
    Event {
        id: EventId::random().unwrap(),
        account_id,
        kind: "sandbox.created".to_owned(),
        payload: serde_json::json!({"sandbox_id": "sbx_1", "n": [1, null]}),
        target: target.to_owned(),
        created_at: at(0),
    }
}

/// The name of an error's variant, for lists of cases.
pub fn kind<T>(result: &Result<T, StoreError>) -> String {
    match result {
        Ok(_) => "Ok".to_owned(),
        Err(error) => {
            let text = format!("{error:?}");
            text.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
        }
    }
}
