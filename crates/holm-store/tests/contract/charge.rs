//! Charging sandboxes for their time.

use holm_store::{EndReason, EntryKind, PageQuery, Record, Store};
use jiff::{SignedDuration, Timestamp};

use crate::support::{Bed, at, both, contract, end, ending, kind, record, reserve, running};

contract! {
    each_second_is_paid_once parts_of_seconds_are_not_lost nothing_after_end_or_lease
    the_end_charges_the_rest without_a_price_only_the_mark_moves beyond_all_numbers
    case_75_the_edge_of_a_month_is_a_second_like_others
}

async fn priced(store: &dyn Store, price: i64) -> Record {
    let mut wanted = record(both(store).await);
    wanted.price_per_second = price;
    let topup = crate::support::topup(wanted.account_id, 1_000_000);
    store.ledger_add(topup).await.unwrap();
    running(store, wanted, 0).await
}

async fn each_second_is_paid_once(bed: &Bed) {
    let store = &bed.store;
    let sandbox = priced(&**store, 10).await;
    for (until, seconds, mark) in
        [(0, 0, 0), (60, 60, 60), (60, 0, 60), (30, 0, 60), (-5, 0, 60), (61, 1, 61)]
    {
        let charged = store.ledger_charge(sandbox.id, at(until)).await.unwrap();
        assert_eq!((charged.seconds, charged.amount), (seconds, seconds * 10), "{until}");
        assert_eq!(charged.metered_until, Some(at(mark)), "{until}");
        assert_eq!(charged.balance, 1_000_000 - mark * 10, "{until}");
    }
    let entries = store.ledger_list(sandbox.account_id, PageQuery::first(9)).await.unwrap().items;
    let spans: Vec<_> = entries.iter().filter_map(|e| e.usage.map(|u| (u.from, u.to))).collect();
    assert_eq!(spans, [(at(60), at(61)), (at(0), at(60))]);
    assert!(entries[..2].iter().all(|entry| entry.kind == EntryKind::Usage));
    let missing = holm_store::SandboxId::random().unwrap();
    assert_eq!(kind(&store.ledger_charge(missing, at(1)).await), "Unknown");
}

async fn parts_of_seconds_are_not_lost(bed: &Bed) {
    let store = &bed.store;
    let sandbox = priced(&**store, 10).await;
    let millis = |millis| at(0).checked_add(SignedDuration::from_millis(millis)).unwrap();
    let mut total = 0;
    for step in 1..=10 {
        total += store.ledger_charge(sandbox.id, millis(step * 700)).await.unwrap().seconds;
    }
    assert_eq!(total, 7);
    let last = store.ledger_charge(sandbox.id, millis(7_999)).await.unwrap();
    assert_eq!((last.seconds, last.metered_until), (0, Some(at(7))));
}

async fn nothing_after_end_or_lease(bed: &Bed) {
    let store = &bed.store;
    let sandbox = priced(&**store, 10).await;
    // Its lease is 900 seconds.
    let charged = store.ledger_charge(sandbox.id, at(5_000)).await.unwrap();
    assert_eq!(charged.metered_until, Some(at(900)));
    let other = priced(&**store, 10).await;
    let other = end(&**store, other, EndReason::Lost, 100).await;
    let charged = store.ledger_charge(other.id, at(500)).await.unwrap();
    assert_eq!((charged.seconds, charged.metered_until), (0, Some(at(100))));
    let unready = reserve(&**store, record(both(&**store).await)).await;
    let charged = store.ledger_charge(unready.id, at(500)).await.unwrap();
    assert_eq!((charged.seconds, charged.metered_until), (0, None));
}

async fn the_end_charges_the_rest(bed: &Bed) {
    let store = &bed.store;
    let sandbox = priced(&**store, 10).await;
    store.ledger_charge(sandbox.id, at(40)).await.unwrap();
    let ended = ending(sandbox, EndReason::Destroyed, 100);
    let ended = store.sandbox_save(ended, vec![]).await.unwrap();
    assert_eq!(ended.metered_until, Some(at(100)));
    assert_eq!((ended.charged_seconds(), ended.cost()), (100, 1000));
    assert_eq!(store.ledger_balance(ended.account_id).await.unwrap(), 1_000_000 - 1000);
    let gone = end(&**store, ended, EndReason::Destroyed, 100).await;
    assert_eq!(store.ledger_balance(gone.account_id).await.unwrap(), 1_000_000 - 1000);
    // Lost while nobody watched: it ended at its last mark, and costs nothing more.
    let lost = priced(&**store, 10).await;
    store.ledger_charge(lost.id, at(60)).await.unwrap();
    let lost = end(&**store, lost, EndReason::Lost, 60).await;
    assert_eq!(store.ledger_balance(lost.account_id).await.unwrap(), 1_000_000 - 600);
    let check = store.ledger_check(lost.account_id).await.unwrap();
    assert_eq!((check.sum, check.balance), (1_000_000 - 600, 1_000_000 - 600));
}

async fn without_a_price_only_the_mark_moves(bed: &Bed) {
    let store = &bed.store;
    let sandbox = running(&**store, record(both(&**store).await), 0).await;
    let charged = store.ledger_charge(sandbox.id, at(60)).await.unwrap();
    assert_eq!((charged.seconds, charged.amount, charged.balance), (60, 0, 0));
    let page = PageQuery::first(9);
    assert_eq!(store.ledger_list(sandbox.account_id, page).await.unwrap().items, []);
}

async fn beyond_all_numbers(bed: &Bed) {
    let store = &bed.store;
    let sandbox = priced(&**store, i64::MAX).await;
    assert_eq!(kind(&store.ledger_charge(sandbox.id, at(2)).await), "Invalid");
    assert_eq!(kind(&store.ledger_charge(sandbox.id, Timestamp::MAX).await), "Invalid");
    let charged = store.ledger_charge(sandbox.id, at(0)).await.unwrap();
    assert_eq!((charged.seconds, charged.balance), (0, 1_000_000), "nothing was half done");
}

/// Of a month, of a year, and of a February with a day more.
async fn case_75_the_edge_of_a_month_is_a_second_like_others(bed: &Bed) {
    let store = &bed.store;
    for edge in ["2027-02-01T00:00:00Z", "2028-01-01T00:00:00Z", "2028-03-01T00:00:00Z"] {
        let edge: Timestamp = edge.parse().unwrap();
        let begin = edge.duration_since(at(0)).as_secs() - 30;
        let mut wanted = record(both(&**store).await);
        wanted.price_per_second = 10;
        let topup = crate::support::topup(wanted.account_id, 1_000_000);
        store.ledger_add(topup).await.unwrap();
        wanted.created_at = at(begin);
        let sandbox = running(&**store, wanted, begin).await;
        let mut total = 0;
        for lived in [20, 29, 30, 31, 31, 60, 90] {
            total += store.ledger_charge(sandbox.id, at(begin + lived)).await.unwrap().seconds;
            assert_eq!(total, lived, "{edge}");
        }
        let sandbox = store.sandbox_get(holm_store::Owner::Any, sandbox.id).await.unwrap().unwrap();
        let account = sandbox.account_id;
        let ended = end(&**store, sandbox, EndReason::Destroyed, begin + 100).await;
        assert_eq!(ended.metered_until, Some(at(begin + 100)));
        assert_eq!(store.ledger_balance(account).await.unwrap(), 1_000_000 - 100 * 10, "{edge}");
    }
}
