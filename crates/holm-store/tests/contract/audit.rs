//! Audit events.

use holm_store::{AccountId, AuditEvent, AuditId, DETAIL_MAX, KeyId, Outcome, Owner, PageQuery};

use crate::support::{Bed, at, contract, kind};

contract! { events_read_back_newest_first details_are_small }

fn event(account_id: Option<AccountId>, second: i64) -> AuditEvent {
    AuditEvent {
        id: AuditId::random().unwrap(),
        at: at(second),
        account_id,
        key_id: account_id.map(|_| KeyId::random().unwrap()),
        action: "sandbox.create".to_owned(),
        target: (second % 2 == 0).then(|| "sbx_1".to_owned()),
        outcome: Outcome::ALL[usize::try_from(second).unwrap() % 3],
        detail: serde_json::json!({"size": "small", "second": second}),
    }
}

async fn events_read_back_newest_first(bed: &Bed) {
    let store = &bed.store;
    // Accounts need not exist: a refused key names none.
    let (one, other) = (AccountId::random().unwrap(), AccountId::random().unwrap());
    let events = [Some(one), None, Some(other), Some(one), Some(one)];
    let mut made: Vec<AuditEvent> =
        (0..).zip(events).map(|(second, account)| event(account, second)).collect();
    for event in &made {
        store.audit_add(event.clone()).await.unwrap();
    }
    assert_eq!(kind(&store.audit_add(made[0].clone()).await), "Exists");
    made.reverse();
    let all = store.audit_list(Owner::Any, PageQuery::first(10)).await.unwrap();
    assert_eq!((&all.items, all.next), (&made, None));
    let own: Vec<AuditEvent> =
        made.into_iter().filter(|event| event.account_id == Some(one)).collect();
    let first = store.audit_list(Owner::Account(one), PageQuery::first(2)).await.unwrap();
    assert_eq!(first.items, own[..2]);
    let query = PageQuery { limit: 2, after: first.next };
    let second = store.audit_list(Owner::Account(one), query).await.unwrap();
    assert_eq!((second.items.as_slice(), second.next), (&own[2..], None));
}

async fn details_are_small(bed: &Bed) {
    for (length, want) in [(DETAIL_MAX - 2, "Ok"), (DETAIL_MAX - 1, "Invalid")] {
        let mut event = event(None, 0);
        event.detail = "x".repeat(length).into();
        assert_eq!(kind(&bed.store.audit_add(event).await), want, "{length}");
    }
}
