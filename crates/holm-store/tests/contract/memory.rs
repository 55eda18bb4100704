//! What only the store in memory does: it forgets.

use holm_store::{Accounts as _, Audit as _, Sandboxes as _};
use holm_store::{
    AuditEvent, AuditId, EndReason, Idempotency, MemoryStore, Outcome, Owner, PageQuery, Reserved,
    Store as _,
};

use crate::support::{at, block_on, both, end, kind, record, reservation, reserve, running};

#[test]
fn it_remembers_the_last_ones_and_sums_of_all() {
    block_on(async {
        let store = MemoryStore::new(3);
        let place = both(&store).await;
        let alive = running(&store, record(place), 0).await;
        let mut ended = Vec::new();
        for number in 0..10 {
            let mut wanted = reservation(record(place));
            wanted.idempotency = Some(Idempotency::new(number.to_string(), b"the same"));
            let Reserved::New(made) = store.sandbox_reserve(wanted).await.unwrap() else {
                panic!("{number} exists");
            };
            let runs = crate::support::ready(made, 0);
            let runs = store.sandbox_save(runs, Vec::new()).await.unwrap();
            ended.push(end(&store, runs, EndReason::Destroyed, 10).await.id);
        }
        let mut left = Vec::new();
        for id in &ended {
            if store.sandbox_get(Owner::Any, *id).await.unwrap().is_some() {
                left.push(*id);
            }
        }
        assert_eq!(left, ended[7..]);
        let page = store.sandbox_list(Owner::Any, PageQuery::first(100), true).await.unwrap();
        assert_eq!(page.items.len(), 4);
        assert!(page.items.contains(&alive), "one that is alive is never forgotten");
        let totals = store.sandbox_totals(Owner::Account(place.0)).await.unwrap();
        assert_eq!(
            (totals.sandboxes, totals.ended_seconds.round().to_string()),
            (11, "100".into())
        );
        // An idempotency key is forgotten with its sandbox.
        for (number, new) in [("0", true), ("9", false)] {
            let mut wanted = reservation(record(place));
            wanted.idempotency = Some(Idempotency::new(number, b"the same"));
            let again = store.sandbox_reserve(wanted).await.unwrap();
            assert_eq!(matches!(again, Reserved::New(_)), new, "{number}");
        }
    });
}

#[test]
fn it_remembers_the_last_audit_events() {
    block_on(async {
        let store = MemoryStore::new(3);
        for number in 0..100 {
            let event = AuditEvent {
                id: AuditId::random().unwrap(),
                at: at(number),
                account_id: None,
                key_id: None,
                action: number.to_string(),
                target: None,
                outcome: Outcome::Done,
                detail: serde_json::Value::Null,
            };
            store.audit_add(event).await.unwrap();
        }
        let page = store.audit_list(Owner::Any, PageQuery::first(100)).await.unwrap();
        assert_eq!((page.items.len(), page.items[0].action.as_str()), (12, "99"));
    });
}

#[test]
fn a_closed_store_says_so() {
    block_on(async {
        let store = MemoryStore::new(3);
        let place = both(&store).await;
        reserve(&store, record(place)).await;
        store.close().await;
        store.close().await;
        assert_eq!(kind(&store.ping().await), "Unavailable");
        assert_eq!(kind(&store.account_get(place.0).await), "Unavailable");
    });
}
