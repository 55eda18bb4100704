//! Several at once, each with a store of its own where the database allows it.

use std::sync::Arc;

use holm_store::{Idempotency, KeyStatus, Owner, PageQuery, Reserved, Store, StoreError};
use tokio::task::JoinSet;

use crate::support::{
    Bed, at, both, contract, event, key, kind, ready, record, reservation, reserve, running, topup,
};

contract! { on_disk:
    the_last_place_is_taken_once the_last_place_of_a_node two_chargers_charge_once
    money_from_all_sides_adds_up saves_do_not_overwrite_each_other a_revoke_and_a_reserve
    claims_are_not_shared the_same_create_at_once dropped_calls_are_whole
}

const RACERS: usize = 8;
/// Races of one kind: a window that is small is missed by most of them.
const ROUNDS: usize = 20;

/// Runs `racer` [`RACERS`] times at once, half of them on a second store, all from one start.
async fn race<T, F>(bed: &Bed, racer: impl Fn(Arc<dyn Store>, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let second = bed.place.open().await.unwrap();
    let start = Arc::new(tokio::sync::Barrier::new(RACERS));
    let mut set = JoinSet::new();
    for number in 0..RACERS {
        let store = Arc::clone(if number % 2 == 0 { &bed.store } else { &second });
        let (warm, start) = (Arc::clone(&store), Arc::clone(&start));
        let race = racer(store, number);
        set.spawn(async move {
            // Several at once, so that nobody has to connect after the start.
            start.wait().await;
            warm.ping().await.unwrap();
            start.wait().await;
            race.await
        });
    }
    let results = set.join_all().await;
    second.close().await;
    results
}

fn count<T>(results: &[Result<T, StoreError>], want: &str) -> usize {
    results.iter().filter(|result| kind(result) == want).count()
}

async fn the_last_place_is_taken_once(bed: &Bed) {
    for _ in 0..ROUNDS {
        let place = both(&*bed.store).await;
        reserve(&*bed.store, record(place)).await;
        let results = race(bed, |store, _| async move {
            let mut wanted = reservation(record(place));
            wanted.account_limit = 2;
            store.sandbox_reserve(wanted).await
        })
        .await;
        assert_eq!((count(&results, "Ok"), count(&results, "AccountFull")), (1, RACERS - 1));
        assert_eq!(bed.store.sandbox_alive(Owner::Account(place.0)).await.unwrap(), 2);
    }
}

async fn the_last_place_of_a_node(bed: &Bed) {
    for _ in 0..ROUNDS {
        let machine = crate::support::node(&*bed.store).await;
        let results = race(bed, |store, _| async move {
            // Each for an account of its own: only the node is shared.
            let place = (crate::support::account(&*store).await, machine);
            let mut wanted = reservation(record(place));
            wanted.node_limit = 3;
            store.sandbox_reserve(wanted).await
        })
        .await;
        assert_eq!((count(&results, "Ok"), count(&results, "NodeFull")), (3, RACERS - 3));
    }
}

async fn two_chargers_charge_once(bed: &Bed) {
    let mut wanted = record(both(&*bed.store).await);
    wanted.price_per_second = 3;
    bed.store.ledger_add(topup(wanted.account_id, 10_000)).await.unwrap();
    let sandbox = running(&*bed.store, wanted, 0).await;
    for minute in 1..=5 {
        let id = sandbox.id;
        let results = race(bed, move |store, _| async move {
            store.ledger_charge(id, at(minute * 60)).await.unwrap().seconds
        })
        .await;
        assert_eq!(results.iter().sum::<i64>(), 60, "{results:?}");
    }
    let check = bed.store.ledger_check(sandbox.account_id).await.unwrap();
    assert_eq!((check.sum, check.balance, check.entries), (9_100, 9_100, 6));
}

async fn money_from_all_sides_adds_up(bed: &Bed) {
    let place = both(&*bed.store).await;
    bed.store.ledger_add(topup(place.0, 1_000)).await.unwrap();
    race(bed, |store, number| async move {
        let mut wanted = record(place);
        wanted.price_per_second = 1;
        let sandbox = running(&*store, wanted, 0).await;
        for second in 1..=10 {
            store.ledger_charge(sandbox.id, at(second)).await.unwrap();
            store.ledger_add(topup(place.0, 2)).await.unwrap();
        }
        if number % 2 == 0 {
            crate::support::end(&*store, sandbox, holm_store::EndReason::Expired, 15).await;
        }
    })
    .await;
    let racers = i64::try_from(RACERS).unwrap();
    let want = 1_000 + racers * (20 - 10) - racers / 2 * 5;
    let check = bed.store.ledger_check(place.0).await.unwrap();
    assert_eq!((check.sum, check.balance), (want, want));
    let entries = bed.store.ledger_list(place.0, PageQuery::first(1000)).await.unwrap().items;
    let mut number = i64::try_from(entries.len()).unwrap();
    for entry in entries {
        assert_eq!(entry.number, number, "without a gap");
        number -= 1;
    }
}

async fn saves_do_not_overwrite_each_other(bed: &Bed) {
    for _ in 0..ROUNDS {
        let first = reserve(&*bed.store, record(both(&*bed.store).await)).await;
        let copy = first.clone();
        let results = race(bed, move |store, number| {
            let mut mine = ready(copy.clone(), 0);
            mine.name = Some(number.to_string());
            async move { store.sandbox_save(mine, vec![]).await }
        })
        .await;
        assert_eq!((count(&results, "Ok"), count(&results, "Stale")), (1, RACERS - 1));
        let stored = bed.store.sandbox_get(Owner::Any, first.id).await.unwrap().unwrap();
        let winner = results.into_iter().find_map(Result::ok).unwrap();
        assert_eq!(stored, winner);
    }
}

/// Whichever comes first: after the revoke is answered, no reserve with the key succeeds.
async fn a_revoke_and_a_reserve(bed: &Bed) {
    let place = both(&*bed.store).await;
    let (new, hash, _) = key(place.0);
    bed.store.key_create(new.clone(), hash).await.unwrap();
    let id = new.id;
    let results = race(bed, move |store, number| async move {
        if number == 3 {
            store.key_revoke(Owner::Any, id, at(1)).await.unwrap();
            let (key, _) = store.key_by_hash(hash).await.unwrap().unwrap();
            assert_eq!(key.status(at(1)), KeyStatus::Revoked);
        }
        let mut wanted = record(place);
        wanted.key_id = Some(id);
        (number, store.sandbox_reserve(reservation(wanted)).await)
    })
    .await;
    for (number, result) in &results {
        let kind = kind(result);
        assert!(kind == "KeyUnusable" || (kind == "Ok" && *number != 3), "{number} {kind}");
    }
    let made = results.iter().filter(|(_, result)| result.is_ok()).count();
    let alive = bed.store.sandbox_alive(Owner::Any).await.unwrap();
    assert_eq!(u64::try_from(made).unwrap(), alive);
}

async fn claims_are_not_shared(bed: &Bed) {
    let id = crate::support::account(&*bed.store).await;
    for _ in 0..40 {
        bed.store.outbox_add(event(id, "a")).await.unwrap();
    }
    let claims = race(bed, |store, _| async move {
        let lease = std::time::Duration::from_secs(60);
        let claim = holm_store::OutboxClaim { target: None, now: at(0), lease, limit: 10 };
        store.outbox_claim(claim).await.unwrap()
    })
    .await;
    let mut ids: Vec<_> = claims.into_iter().flatten().map(|delivery| delivery.event.id).collect();
    let claimed = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), claimed), (claimed, ids.len()), "each has one claimer");
    assert!((10..=40).contains(&claimed), "{claimed}");
}

async fn the_same_create_at_once(bed: &Bed) {
    for _ in 0..ROUNDS {
        let place = both(&*bed.store).await;
        let results = race(bed, |store, _| async move {
            let mut wanted = reservation(record(place));
            let (key, fingerprint) = ("k".to_owned(), "r".to_owned());
            wanted.idempotency = Some(Idempotency { key, fingerprint });
            store.sandbox_reserve(wanted).await.unwrap()
        })
        .await;
        let new = results.iter().filter(|reserved| matches!(reserved, Reserved::New(_))).count();
        assert_eq!(new, 1);
        let ids = results.iter().map(|reserved| match reserved {
            Reserved::New(record) | Reserved::Existing(record) => record.id,
        });
        assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 1);
    }
}

/// A caller that stops waiting leaves no half transaction and no lost connection.
async fn dropped_calls_are_whole(bed: &Bed) {
    let id = crate::support::account(&*bed.store).await;
    for _ in 0..50 {
        let mut call = bed.store.ledger_add(topup(id, 1));
        // Looked at once, so that it has begun, and dropped.
        std::future::poll_fn(|context| {
            let _maybe_ready = call.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        drop(call);
    }
    bed.store.ledger_add(topup(id, 1)).await.unwrap();
    let check = bed.store.ledger_check(id).await.unwrap();
    assert_eq!(check.sum, check.balance);
    assert!((1..=51).contains(&check.entries), "{check:?}");
}
