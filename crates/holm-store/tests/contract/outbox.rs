//! The webhooks' outbox.

use std::time::Duration;

use holm_store::{
    AccountId, Completion, Delivery, DeliveryOutcome, Event, EventId, OutboxClaim, PAYLOAD_MAX,
};
use jiff::Timestamp;

use crate::support::{Bed, account, at, contract, event, kind};

contract! { an_event_is_added_once a_claim_is_one_claimers each_target_has_its_own attempts_end_as_told old_ones_go }

fn claim(second: i64, limit: u32) -> OutboxClaim {
    OutboxClaim { target: None, now: at(second), lease: Duration::from_secs(30), limit }
}

fn done(delivery: &Delivery, outcome: DeliveryOutcome, second: i64) -> Completion {
    Completion {
        id: delivery.event.id,
        target: delivery.event.target.clone(),
        attempt: delivery.attempt,
        outcome,
        at: at(second),
    }
}

async fn an_event_is_added_once(bed: &Bed) {
    let store = &bed.store;
    let new = event(account(&**store).await, "a");
    assert!(store.outbox_add(new.clone()).await.unwrap());
    assert!(!store.outbox_add(new.clone()).await.unwrap());
    let to_another = Event { target: "b".to_owned(), ..new.clone() };
    assert!(store.outbox_add(to_another.clone()).await.unwrap());
    let claimed = store.outbox_claim(claim(0, 10)).await.unwrap();
    let events: Vec<Event> = claimed.into_iter().map(|delivery| delivery.event).collect();
    assert_eq!(events, [new.clone(), to_another]);
    let orphan = Event { account_id: AccountId::random().unwrap(), ..new.clone() };
    assert_eq!(kind(&store.outbox_add(orphan).await), "Unknown");
    let large = "x".repeat(PAYLOAD_MAX).into();
    let large = Event { id: EventId::random().unwrap(), payload: large, ..new };
    assert_eq!(kind(&store.outbox_add(large).await), "Invalid");
}

async fn a_claim_is_one_claimers(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    for second in 0..3 {
        let mut new = event(id, "a");
        new.created_at = at(second);
        store.outbox_add(new).await.unwrap();
    }
    let times = |deliveries: &[Delivery]| -> Vec<(Timestamp, i64)> {
        deliveries.iter().map(|delivery| (delivery.event.created_at, delivery.attempt)).collect()
    };
    // The oldest first, and none before it is due.
    let first = store.outbox_claim(claim(0, 9)).await.unwrap();
    assert_eq!(times(&first), [(at(0), 1)]);
    assert_eq!(times(&store.outbox_claim(claim(1, 9)).await.unwrap()), [(at(1), 1)]);
    assert_eq!(times(&store.outbox_claim(claim(2, 9)).await.unwrap()), [(at(2), 1)]);
    assert_eq!(times(&store.outbox_claim(claim(29, 9)).await.unwrap()), []);
    // The claimer died: at the end of its time somebody else has it.
    assert_eq!(times(&store.outbox_claim(claim(30, 9)).await.unwrap()), [(at(0), 2)]);
    // What the first claimer says later is too late, unless it was delivered.
    let late = done(&first[0], DeliveryOutcome::Retry(at(31)), 31);
    assert!(!store.outbox_complete(late).await.unwrap());
    let late = done(&first[0], DeliveryOutcome::Abandoned, 31);
    assert!(!store.outbox_complete(late).await.unwrap());
    let late = done(&first[0], DeliveryOutcome::Delivered, 31);
    assert!(store.outbox_complete(late).await.unwrap());
}

async fn each_target_has_its_own(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    for (target, second) in [("a", 0), ("b", 1), ("a", 2), ("b", 3)] {
        let mut new = event(id, target);
        new.created_at = at(second);
        store.outbox_add(new).await.unwrap();
    }
    let of =
        |target: &str, limit| OutboxClaim { target: Some(target.to_owned()), ..claim(9, limit) };
    let times = |deliveries: Vec<Delivery>| -> Vec<Timestamp> {
        deliveries.into_iter().map(|delivery| delivery.event.created_at).collect()
    };
    assert_eq!(times(store.outbox_claim(of("b", 1)).await.unwrap()), [at(1)]);
    assert_eq!(times(store.outbox_claim(of("b", 9)).await.unwrap()), [at(3)]);
    assert_eq!(times(store.outbox_claim(of("c", 9)).await.unwrap()), []);
    assert_eq!(times(store.outbox_claim(claim(9, 9)).await.unwrap()), [at(0), at(2)]);
}

async fn attempts_end_as_told(bed: &Bed) {
    let store = &bed.store;
    store.outbox_add(event(account(&**store).await, "a")).await.unwrap();
    let first = store.outbox_claim(claim(0, 9)).await.unwrap().remove(0);
    let again = done(&first, DeliveryOutcome::Retry(at(100)), 1);
    assert!(store.outbox_complete(again).await.unwrap());
    assert_eq!(store.outbox_claim(claim(99, 9)).await.unwrap(), []);
    let second = store.outbox_claim(claim(100, 9)).await.unwrap().remove(0);
    assert_eq!(second.attempt, 2);
    let given_up = done(&second, DeliveryOutcome::Abandoned, 101);
    assert!(store.outbox_complete(given_up.clone()).await.unwrap());
    assert!(!store.outbox_complete(given_up).await.unwrap(), "it is done");
    assert_eq!(store.outbox_claim(claim(10_000, 9)).await.unwrap(), []);
}

async fn old_ones_go(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    for _ in 0..2 {
        store.outbox_add(event(id, "a")).await.unwrap();
    }
    let claimed = store.outbox_claim(claim(0, 1)).await.unwrap();
    let delivered = done(&claimed[0], DeliveryOutcome::Delivered, 50);
    store.outbox_complete(delivered).await.unwrap();
    assert_eq!(store.outbox_prune(at(50)).await.unwrap(), 0);
    assert_eq!(store.outbox_prune(at(51)).await.unwrap(), 1);
    assert_eq!(store.outbox_claim(claim(100, 9)).await.unwrap().len(), 1, "the other one stays");
}
