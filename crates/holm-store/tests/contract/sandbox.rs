//! Records of sandboxes.

use holm_store::{EndReason, Ended, Owner, PageQuery, SandboxId, SandboxState, Traffic};

use crate::support::{
    Bed, account, at, both, contract, end, ending, event, kind, node, ready, record, reserve,
    running, topup,
};

contract! {
    a_save_writes_what_may_change every_arrow_and_no_other an_old_copy_is_refused
    what_is_set_once_stays traffic_only_grows a_foreign_sandbox_looks_missing lists_and_pages adoption_list sums
}

async fn a_save_writes_what_may_change(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let mut wanted = ready(reserve(&**store, record(place)).await, 3);
    wanted.adoption = Some(serde_json::json!({"pid": 12, "start": 99, "socket": "/run/x"}));
    wanted.name = None;
    wanted.network = serde_json::json!("none");
    wanted.metadata.clear();
    let told = event(place.0, "http://hook");
    let saved = store.sandbox_save(wanted.clone(), vec![told.clone()]).await.unwrap();
    wanted.version = 2;
    wanted.metered_until = Some(at(3));
    assert_eq!(saved, wanted);
    assert!(!store.outbox_add(told).await.unwrap(), "its event was recorded with it");
    // What never changes is not written.
    let mut odd = saved.clone();
    odd.price_per_second = 1_000_000;
    odd.account_id = account(&**store).await;
    odd.metered_until = None;
    odd.secrets.clear();
    odd.traffic = Traffic { bytes_out: 9, denied: 9, ..Traffic::default() };
    let again = store.sandbox_save(odd, vec![]).await.unwrap();
    wanted.version = 3;
    assert_eq!(again, wanted);
    let nobody = record(place);
    assert_eq!(kind(&store.sandbox_save(nobody, vec![]).await), "Unknown");
}

async fn traffic_only_grows(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    // Also connections and what else is counted.
    let traffic = |bytes_out, bytes_in| {
        let (connections, denied, dns_queries) = (bytes_out * 2, bytes_in * 3, bytes_out * 5);
        Traffic { bytes_out, bytes_in, connections, denied, dns_queries }
    };
    let one = running(&**store, record(place), 0).await;
    let other = running(&**store, record(place), 0).await;
    let mut seen = Vec::new();
    for (id, so_far) in
        [(one.id, traffic(5, 7)), (one.id, traffic(9, 6)), (other.id, traffic(1, 1 << 40))]
    {
        store.sandbox_traffic(id, so_far).await.unwrap();
        let found = store.sandbox_get(Owner::Any, id).await.unwrap().unwrap();
        seen.push((found.traffic, found.version));
    }
    assert_eq!(seen, [(traffic(5, 7), 2), (traffic(9, 7), 2), (traffic(1, 1 << 40), 2)]);
    // It counts from the beginning, and on when it is over.
    let sums = || async { store.sandbox_totals(Owner::Any).await.unwrap().traffic };
    assert_eq!(sums().await, traffic(10, 7 + (1 << 40)));
    end(&**store, one, EndReason::Destroyed, 9).await;
    assert_eq!(sums().await, traffic(10, 7 + (1 << 40)));
    let foreign = Owner::Account(account(&**store).await);
    assert_eq!(store.sandbox_totals(foreign).await.unwrap().traffic, traffic(0, 0));
    let nobody = SandboxId::random().unwrap();
    assert_eq!(kind(&store.sandbox_traffic(nobody, traffic(1, 1)).await), "Unknown");
}

async fn every_arrow_and_no_other(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    for from in SandboxState::ALL {
        for to in SandboxState::ALL {
            let reason =
                if to == SandboxState::Failed { EndReason::Lost } else { EndReason::Destroyed };
            let mut now = reserve(&**store, record(place)).await;
            if from.is_live() {
                now = store.sandbox_save(ready(now, 0), vec![]).await.unwrap();
                if from == SandboxState::Paused {
                    now.state = from;
                    now.pause.turned_at = Some(at(1));
                    now = store.sandbox_save(now, vec![]).await.unwrap();
                }
            } else if from == SandboxState::Failed {
                now = end(&**store, now, EndReason::Lost, 5).await;
            } else if from == SandboxState::Deleted {
                now = end(&**store, now, EndReason::Destroyed, 5).await;
            } else if from == SandboxState::Deleting {
                now = store.sandbox_save(ending(now, reason, 5), vec![]).await.unwrap();
            }
            let mut next = now.clone();
            next.state = to;
            if to.is_live() && next.ready_at.is_none() {
                next.ready_at = Some(at(0));
            }
            if to != from && to.is_live() && from.is_live() {
                next.pause.turned_at = Some(at(2));
            }
            let ends = to == SandboxState::Deleting || to.is_over();
            let ended = Ended { reason, at: at(5) };
            next.ended = if ends { Some(next.ended.unwrap_or(ended)) } else { None };
            let want = match from == to || from.may_become(to) {
                true => "Ok",
                false => "Transition",
            };
            assert_eq!(kind(&store.sandbox_save(next, vec![]).await), want, "{from} > {to}");
            // Out of the way: places are limited.
            let left = store.sandbox_get(Owner::Any, now.id).await.unwrap().unwrap();
            if !left.state.is_over() {
                let mut left = left;
                if left.ended.is_none() {
                    let ending = ending(left, EndReason::Destroyed, 5);
                    left = store.sandbox_save(ending, vec![]).await.unwrap();
                }
                left.state = left.ended.unwrap().reason.final_state();
                store.sandbox_save(left, vec![]).await.unwrap();
            }
        }
    }
}

async fn an_old_copy_is_refused(bed: &Bed) {
    let store = &bed.store;
    let first = reserve(&**store, record(both(&**store).await)).await;
    let second = store.sandbox_save(ready(first.clone(), 0), vec![]).await.unwrap();
    assert_eq!(kind(&store.sandbox_save(first, vec![]).await), "Stale");
    // Charging moves nothing that a save writes, so it makes no copy old.
    store.ledger_charge(second.id, at(60)).await.unwrap();
    let third = store.sandbox_save(second, vec![]).await.unwrap();
    assert_eq!(third.metered_until, Some(at(60)));
}

async fn what_is_set_once_stays(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let alive = running(&**store, record(place), 10).await;
    let mut moved = alive.clone();
    moved.ready_at = Some(at(11));
    let mut ended_early = alive.clone();
    ended_early.ended = Some(Ended { reason: EndReason::Lost, at: at(20) });
    let mut without_end = alive.clone();
    without_end.state = SandboxState::Deleting;
    for wrong in [moved, ended_early, without_end] {
        assert_eq!(kind(&store.sandbox_save(wrong, vec![]).await), "Invalid");
    }
    let going = store.sandbox_save(ending(alive, EndReason::Expired, 20), vec![]).await.unwrap();
    let other_end = ending(going.clone(), EndReason::Expired, 21);
    let mut other_rest = going.clone();
    other_rest.state = SandboxState::Failed;
    for wrong in [other_end, other_rest] {
        assert_eq!(kind(&store.sandbox_save(wrong, vec![]).await), "Invalid");
    }
    let mut never_ready = reserve(&**store, record(place)).await;
    never_ready.state = SandboxState::Running;
    assert_eq!(kind(&store.sandbox_save(never_ready, vec![]).await), "Invalid");
}

async fn a_foreign_sandbox_looks_missing(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let mine = running(&**store, record(place), 0).await;
    let foreign = Owner::Account(account(&**store).await);
    let missing = SandboxId::random().unwrap();
    for owner in [foreign, Owner::Account(place.0), Owner::Any] {
        assert_eq!(store.sandbox_get(owner, missing).await.unwrap(), None);
    }
    assert_eq!(store.sandbox_get(foreign, mine.id).await.unwrap(), None);
    let own = Owner::Account(place.0);
    assert_eq!(store.sandbox_get(own, mine.id).await.unwrap(), Some(mine.clone()));
    let page = PageQuery::first(10);
    assert_eq!(store.sandbox_list(foreign, page.clone(), true).await.unwrap().items, []);
    assert_eq!(store.sandbox_alive(foreign).await.unwrap(), 0);
    assert_eq!(store.sandbox_totals(foreign).await.unwrap().sandboxes, 0);
    // A cursor of somebody else's list opens nothing.
    reserve(&**store, record(place)).await;
    let cursor = store.sandbox_list(own, PageQuery::first(1), true).await.unwrap().next;
    let query = PageQuery { limit: 10, after: cursor };
    assert_eq!(store.sandbox_list(foreign, query, true).await.unwrap().items, []);
}

async fn lists_and_pages(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let mut made = Vec::new();
    for second in 0..7 {
        let mut wanted = record(place);
        wanted.created_at = at(second / 2);
        let sandbox = running(&**store, wanted, 10).await;
        made.push((sandbox.created_at, sandbox.id, second % 3 == 0));
        if second % 3 == 0 {
            end(&**store, sandbox, EndReason::Destroyed, 20).await;
        }
    }
    made.sort_unstable();
    made.reverse();
    for include_over in [true, false] {
        let want: Vec<SandboxId> =
            made.iter().filter(|(.., over)| include_over || !over).map(|(_, id, _)| *id).collect();
        for limit in [1, 2, 3, 100] {
            let mut seen = Vec::new();
            let mut query = PageQuery::first(limit);
            loop {
                let owner = Owner::Account(place.0);
                let page = store.sandbox_list(owner, query.clone(), include_over).await.unwrap();
                seen.extend(page.items.iter().map(|record| record.id));
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            assert_eq!(seen, want, "{limit} {include_over}");
        }
    }
}

async fn adoption_list(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let made = reserve(&**store, record(place)).await;
    let mut later = record(place);
    later.created_at = at(1);
    let runs = running(&**store, later, 1).await;
    let mut going = record(place);
    going.created_at = at(2);
    let going = running(&**store, going, 2).await;
    let going = store.sandbox_save(ending(going, EndReason::Lost, 9), vec![]).await.unwrap();
    let gone = running(&**store, record(place), 0).await;
    end(&**store, gone, EndReason::Expired, 9).await;
    reserve(&**store, record((place.0, node(&**store).await))).await;
    let there = store.sandbox_alive_on(place.1).await.unwrap();
    assert_eq!(there, [made, runs, going]);
}

async fn sums(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let other = (account(&**store).await, place.1);
    for (place, seconds) in [(place, 10), (place, 20), (other, 100)] {
        let mut wanted = record(place);
        wanted.price_per_second = 7;
        store.ledger_add(topup(wanted.account_id, 1_000)).await.unwrap();
        let sandbox = running(&**store, wanted, 0).await;
        end(&**store, sandbox, EndReason::Destroyed, seconds).await;
    }
    let mut wanted = record(place);
    wanted.price_per_second = 7;
    let alive = running(&**store, wanted, 0).await;
    store.ledger_charge(alive.id, at(3)).await.unwrap();
    let never_ready = reserve(&**store, record(place)).await;
    end(&**store, never_ready, EndReason::Destroyed, 50).await;
    let own = store.sandbox_totals(Owner::Account(place.0)).await.unwrap();
    assert_eq!((own.sandboxes, own.ended_seconds.round().to_string()), (3, "30".to_owned()));
    let all = store.sandbox_totals(Owner::Any).await.unwrap();
    assert_eq!((all.sandboxes, all.ended_seconds.round().to_string()), (4, "130".to_owned()));
    assert_eq!((own.cost, all.cost), (33 * 7, 133 * 7), "of the living as far as charged");
}
