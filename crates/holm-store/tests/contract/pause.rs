//! Pausing sandboxes, and what that costs.

use std::time::Duration;

use holm_store::{EndReason, Owner, PageQuery, Pause, Record, SandboxState, Store};
use jiff::{SignedDuration, Timestamp};

use crate::support::{Bed, at, both, contract, end, ending, kind, ready, record, reserve, topup};

contract! {
    each_second_has_one_price short_pauses_save_nothing a_pause_ends_with_the_lease
    the_end_charges_a_pause a_pause_has_its_moment what_is_asked_for_stays a_pause_may_cost_nothing
}

const RUNNING: i64 = 10;
const PAUSED: i64 = 3;

fn millis(millis: i64) -> Timestamp {
    at(0).checked_add(SignedDuration::from_millis(millis)).unwrap()
}

async fn priced(store: &dyn Store, paused: i64) -> Record {
    let mut wanted = record(both(store).await);
    wanted.price_per_second = RUNNING;
    wanted.pause.price_per_second = paused;
    store.ledger_add(topup(wanted.account_id, 1_000_000)).await.unwrap();
    crate::support::running(store, wanted, 0).await
}

/// From running to paused, or back.
async fn turn(store: &dyn Store, mut record: Record, moment: Timestamp) -> Record {
    record.state = match record.state {
        SandboxState::Running => SandboxState::Paused,
        _ => SandboxState::Running,
    };
    record.pause.turned_at = Some(moment);
    store.sandbox_save(record, vec![]).await.unwrap()
}

/// All that the ledger has of it: seconds from its beginning, without a gap, and what they cost.
async fn spans(store: &dyn Store, sandbox: &Record) -> Vec<(i64, i64)> {
    let page = PageQuery::first(1000);
    let mut entries = store.ledger_list(sandbox.account_id, page).await.unwrap().items;
    entries.reverse();
    let mut spans = Vec::new();
    let mut next = at(0);
    for entry in entries {
        let Some(usage) = entry.usage.filter(|usage| usage.sandbox_id == sandbox.id) else {
            continue;
        };
        assert_eq!(usage.from, next, "a second is missing, or there twice");
        next = usage.to;
        spans.push((usage.to.duration_since(usage.from).as_secs(), -entry.amount));
    }
    let paid: i64 = spans.iter().map(|(_, amount)| amount).sum();
    let found = store.sandbox_get(Owner::Any, sandbox.id).await.unwrap().unwrap();
    assert_eq!(found.cost(), paid);
    let totals = store.sandbox_totals(Owner::Account(sandbox.account_id)).await.unwrap();
    assert_eq!(totals.cost, paid);
    let check = store.ledger_check(sandbox.account_id).await.unwrap();
    assert_eq!((check.sum, check.balance), (1_000_000 - paid, 1_000_000 - paid));
    spans
}

async fn each_second_has_one_price(bed: &Bed) {
    let store = &*bed.store;
    let sandbox = priced(store, PAUSED).await;
    let id = sandbox.id;
    store.ledger_charge(id, at(5)).await.unwrap();
    let sandbox = turn(store, sandbox, millis(10_400)).await;
    assert_eq!((sandbox.state, sandbox.metered_until), (SandboxState::Paused, Some(at(10))));
    assert_eq!(sandbox.cost_at(millis(15_100)), 11 * RUNNING + 4 * PAUSED);
    let charged = store.ledger_charge(id, millis(15_100)).await.unwrap();
    assert_eq!((charged.seconds, charged.amount), (5, RUNNING + 4 * PAUSED));
    assert_eq!(charged.balance, 1_000_000 - 11 * RUNNING - 4 * PAUSED);
    let again = store.ledger_charge(id, millis(15_900)).await.unwrap();
    assert_eq!((again.seconds, again.amount, again.metered_until), (0, 0, Some(at(15))));
    let sandbox = turn(store, sandbox, millis(20_700)).await;
    assert_eq!((sandbox.metered_until, sandbox.pause.charged_seconds), (Some(at(20)), 9));
    store.ledger_charge(id, at(22)).await.unwrap();
    let ended = end(store, sandbox, EndReason::Destroyed, 30).await;
    let running = |seconds| (seconds, seconds * RUNNING);
    let paused = |seconds| (seconds, seconds * PAUSED);
    let want = [running(5), running(5), running(1), paused(4), paused(5), running(2), running(8)];
    assert_eq!(spans(store, &ended).await, want);
    assert_eq!(ended.cost_at(at(500)), ended.cost());
}

async fn short_pauses_save_nothing(bed: &Bed) {
    let store = &*bed.store;
    let mut sandbox = priced(store, 0).await;
    for moment in 1..=100 {
        sandbox = turn(store, sandbox, millis(moment * 97)).await;
        store.ledger_charge(sandbox.id, millis(moment * 97 + 50)).await.unwrap();
    }
    let sandbox = end(store, sandbox, EndReason::Destroyed, 10).await;
    let seconds: i64 = spans(store, &sandbox).await.iter().map(|(seconds, _)| seconds).sum();
    assert_eq!((seconds, sandbox.cost()), (10, 10 * RUNNING));
    // A pause as long as a second, but not one of those that are counted.
    let sandbox = priced(store, 0).await;
    let sandbox = turn(store, sandbox, millis(500)).await;
    let sandbox = turn(store, sandbox, millis(1_700)).await;
    let sandbox = end(store, sandbox, EndReason::Destroyed, 3).await;
    assert_eq!(sandbox.cost(), 3 * RUNNING);
}

async fn a_pause_ends_with_the_lease(bed: &Bed) {
    let store = &*bed.store;
    let sandbox = priced(store, PAUSED).await;
    let sandbox = turn(store, sandbox, at(100)).await;
    // Its lease is 900 seconds.
    let charged = store.ledger_charge(sandbox.id, at(5_000)).await.unwrap();
    assert_eq!((charged.seconds, charged.metered_until), (800, Some(at(900))));
    let sandbox = end(store, sandbox, EndReason::Expired, 900).await;
    assert_eq!(spans(store, &sandbox).await, [(100, 1_000), (800, 2_400)]);
}

async fn the_end_charges_a_pause(bed: &Bed) {
    let store = &*bed.store;
    let sandbox = priced(store, PAUSED).await;
    let sandbox = turn(store, sandbox, millis(2_500)).await;
    let mut next = ending(sandbox, EndReason::Destroyed, 0);
    // Another moment than that of the pause is not to be had by ending.
    next.ended = next.ended.map(|ended| holm_store::Ended { at: millis(9_900), ..ended });
    let mut odd = next.clone();
    odd.pause.turned_at = Some(at(9));
    assert_eq!(kind(&store.sandbox_save(odd, vec![]).await), "Invalid");
    let mut ended = store.sandbox_save(next, vec![]).await.unwrap();
    assert_eq!((ended.metered_until, ended.cost()), (Some(at(9)), 3 * RUNNING + 6 * PAUSED));
    ended.state = SandboxState::Deleted;
    let ended = store.sandbox_save(ended, vec![]).await.unwrap();
    assert_eq!(spans(store, &ended).await, [(2, 20), (1, 10), (6, 18)]);
}

async fn a_pause_has_its_moment(bed: &Bed) {
    let store = &*bed.store;
    let sandbox = turn(store, priced(store, PAUSED).await, at(10)).await;
    for (state, moment, want) in [
        (SandboxState::Paused, Some(10), "Ok"),
        (SandboxState::Paused, Some(11), "Invalid"),
        (SandboxState::Paused, None, "Invalid"),
        (SandboxState::Running, None, "Invalid"),
        (SandboxState::Running, Some(9), "Invalid"),
        (SandboxState::Running, Some(10), "Ok"),
    ] {
        let mut next = store.sandbox_get(Owner::Any, sandbox.id).await.unwrap().unwrap();
        next.state = state;
        next.pause.turned_at = moment.map(at);
        let saved = store.sandbox_save(next, vec![]).await;
        assert_eq!(kind(&saved), want, "{state} {moment:?}");
    }
    let mut early = store.sandbox_get(Owner::Any, sandbox.id).await.unwrap().unwrap();
    early.state = SandboxState::Paused;
    early.pause.turned_at = Some(at(-1));
    assert_eq!(kind(&store.sandbox_save(early, vec![]).await), "Invalid");
    assert_eq!(spans(store, &sandbox).await, [(10, 100)], "nothing refused was charged");
    // One that never became ready cannot be paused.
    let mut never = reserve(store, record(both(store).await)).await;
    never.state = SandboxState::Paused;
    never.pause.turned_at = Some(at(1));
    assert_eq!(kind(&store.sandbox_save(never, vec![]).await), "Transition");
}

async fn what_is_asked_for_stays(bed: &Bed) {
    let store = &*bed.store;
    let mut wanted = record(both(store).await);
    wanted.pause.after = Some(Duration::from_millis(90_500));
    wanted.pause.auto_resume = false;
    wanted.pause.price_per_second = 4;
    let asked = wanted.pause.clone();
    let made = reserve(store, wanted).await;
    assert_eq!(made.pause, asked);
    let mut odd = ready(made, 0);
    odd.pause = Pause { charged_seconds: 9, ..Pause::default() };
    let saved = store.sandbox_save(odd, vec![]).await.unwrap();
    assert_eq!(saved.pause, asked, "it never changes");
    let mut bad = record(both(store).await);
    bad.pause.price_per_second = -1;
    let refused = store.sandbox_reserve(crate::support::reservation(bad)).await;
    assert_eq!(kind(&refused), "Invalid");
}

async fn a_pause_may_cost_nothing(bed: &Bed) {
    let store = &*bed.store;
    let sandbox = turn(store, priced(store, 0).await, at(10)).await;
    let charged = store.ledger_charge(sandbox.id, at(60)).await.unwrap();
    assert_eq!((charged.seconds, charged.amount, charged.metered_until), (50, 0, Some(at(60))));
    let sandbox = turn(store, sandbox, at(70)).await;
    let sandbox = end(store, sandbox, EndReason::Destroyed, 80).await;
    assert_eq!((sandbox.cost(), sandbox.pause.charged_seconds), (200, 60));
    assert_eq!(store.ledger_balance(sandbox.account_id).await.unwrap(), 1_000_000 - 200);
}
