//! The same create asked for twice.

use holm_store::{AccountId, NodeId};
use holm_store::{IDEMPOTENCY_LIFE, Idempotency, Owner, Reservation, Reserved};

use crate::support::{Bed, account, at, both, contract, kind, record, reservation};

contract! { a_repeated_create_finds_the_first keys_are_an_accounts_own they_live_for_a_day }

fn wanted(place: (AccountId, NodeId), key: &str, request: &str, second: i64) -> Reservation {
    let mut wanted = reservation(record(place));
    wanted.record.created_at = at(second);
    let (key, fingerprint) = (key.to_owned(), request.to_owned());
    wanted.idempotency = Some(Idempotency { key, fingerprint });
    wanted
}

async fn a_repeated_create_finds_the_first(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let first = store.sandbox_reserve(wanted(place, "k", "r", 0)).await.unwrap();
    let Reserved::New(first) = first else { panic!("nothing was there") };
    // Also where no place is left: it takes none.
    let mut again = wanted(place, "k", "r", 1);
    again.account_limit = 1;
    assert_eq!(store.sandbox_reserve(again).await.unwrap(), Reserved::Existing(first.clone()));
    assert_eq!(store.sandbox_alive(Owner::Any).await.unwrap(), 1);
    let other = store.sandbox_reserve(wanted(place, "k", "another", 1)).await;
    assert_eq!(kind(&other), "IdempotencyReused");
    // The create fails: its key is free again.
    assert!(store.sandbox_forget(first.id, Vec::new()).await.unwrap());
    let third = store.sandbox_reserve(wanted(place, "k", "another", 2)).await.unwrap();
    assert!(matches!(third, Reserved::New(_)));
}

async fn keys_are_an_accounts_own(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let other = (account(&**store).await, place.1);
    for place in [place, other] {
        let reserved = store.sandbox_reserve(wanted(place, "k", "r", 0)).await.unwrap();
        assert!(matches!(reserved, Reserved::New(_)));
    }
}

async fn they_live_for_a_day(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let day = i64::try_from(IDEMPOTENCY_LIFE.as_secs()).unwrap();
    for (second, new) in [(0, true), (day - 1, false), (day, true), (day + 1, false)] {
        let reserved = store.sandbox_reserve(wanted(place, "k", "r", second)).await.unwrap();
        assert_eq!(matches!(reserved, Reserved::New(_)), new, "{second}");
    }
}
