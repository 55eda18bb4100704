//! Taking places.

use holm_store::{AccountId, AccountLimits, EndReason, NodeId, Owner, Reserved, SandboxState};

use crate::support::{
    Bed, account, at, both, contract, end, ending, event, key, kind, node, ready, record,
    reservation, reserve, running, topup,
};

contract! {
    what_is_reserved_reads_back places_of_an_account places_of_a_node who_may_not_reserve
    money_is_needed_where_there_is_a_price a_failed_create_counts_for_nothing
}

async fn what_is_reserved_reads_back(bed: &Bed) {
    let store = &bed.store;
    let mut wanted = record(both(&**store).await);
    wanted.adoption = Some(serde_json::json!({"pid": 7, "boot": "x"}));
    wanted.given.memory_mb = 1 << 40;
    let stored = reserve(&**store, wanted.clone()).await;
    wanted.version = 1;
    assert_eq!(stored, wanted);
    assert_eq!(store.sandbox_get(Owner::Any, wanted.id).await.unwrap(), Some(wanted.clone()));
    assert_eq!(kind(&store.sandbox_reserve(reservation(wanted)).await), "Exists");
}

async fn places_of_an_account(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let limits = AccountLimits { max_sandboxes: Some(2), ..AccountLimits::default() };
    store.account_set_limits(place.0, limits).await.unwrap();
    let first = running(&**store, record(place), 0).await;
    reserve(&**store, record(place)).await;
    let refused = store.sandbox_reserve(reservation(record(place))).await;
    assert_eq!(refused.unwrap_err().to_string(), "the limit of 2 sandboxes at once is reached");
    // One that is being removed still counts.
    let first = store.sandbox_save(ending(first, EndReason::Destroyed, 9), vec![]).await.unwrap();
    assert_eq!(kind(&store.sandbox_reserve(reservation(record(place))).await), "AccountFull");
    let mut gone = first;
    gone.state = SandboxState::Deleted;
    store.sandbox_save(gone, vec![]).await.unwrap();
    reserve(&**store, record(place)).await;
    // Another account has its own places, and the service's limit where it has none.
    let other = (account(&**store).await, place.1);
    let mut wanted = reservation(record(other));
    wanted.account_limit = 1;
    store.sandbox_reserve(wanted.clone()).await.unwrap();
    wanted.record = record(other);
    assert_eq!(kind(&store.sandbox_reserve(wanted).await), "AccountFull");
    assert_eq!(store.sandbox_alive(Owner::Account(other.0)).await.unwrap(), 1);
    assert_eq!(store.sandbox_alive(Owner::Any).await.unwrap(), 3);
}

async fn places_of_a_node(bed: &Bed) {
    let store = &bed.store;
    let node_id = node(&**store).await;
    for want in ["Ok", "Ok", "NodeFull"] {
        let mut wanted = reservation(record((account(&**store).await, node_id)));
        wanted.node_limit = 2;
        assert_eq!(kind(&store.sandbox_reserve(wanted).await), want);
    }
    reserve(&**store, record(both(&**store).await)).await;
}

async fn who_may_not_reserve(bed: &Bed) {
    let store = &bed.store;
    let (owner, machine) = both(&**store).await;
    let nobody = AccountId::random().unwrap();
    let nowhere = NodeId::random().unwrap();
    let disabled = account(&**store).await;
    store.account_set_disabled(disabled, Some(at(0))).await.unwrap();
    for (place, want) in [
        ((nobody, machine), "Unknown"),
        ((owner, nowhere), "Unknown"),
        ((disabled, machine), "AccountDisabled"),
    ] {
        assert_eq!(kind(&store.sandbox_reserve(reservation(record(place))).await), want);
    }
    let (mut new, hash, _) = key(owner);
    new.expires_at = Some(at(100));
    store.key_create(new.clone(), hash).await.unwrap();
    let with_key = |place, second| {
        let mut wanted = record(place);
        wanted.key_id = Some(new.id);
        wanted.created_at = at(second);
        reservation(wanted)
    };
    let foreign = (account(&**store).await, machine);
    for (place, second, want) in [
        ((owner, machine), 99, "Ok"),
        ((owner, machine), 100, "KeyUnusable"),
        (foreign, 0, "Unknown"),
    ] {
        assert_eq!(kind(&store.sandbox_reserve(with_key(place, second)).await), want);
    }
    store.key_revoke(Owner::Any, new.id, at(1)).await.unwrap();
    let refused = store.sandbox_reserve(with_key((owner, machine), 0)).await;
    assert_eq!(kind(&refused), "KeyUnusable");
    let running = ready(record((owner, machine)), 0);
    assert_eq!(kind(&store.sandbox_reserve(reservation(running)).await), "Invalid");
    let mut cheap = record((owner, machine));
    cheap.price_per_second = -1;
    assert_eq!(kind(&store.sandbox_reserve(reservation(cheap)).await), "Invalid");
}

async fn money_is_needed_where_there_is_a_price(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let mut priced = record(place);
    priced.price_per_second = 5;
    assert_eq!(kind(&store.sandbox_reserve(reservation(priced.clone())).await), "BalanceEmpty");
    reserve(&**store, record(place)).await;
    store.ledger_add(topup(place.0, 1)).await.unwrap();
    let sandbox = running(&**store, priced, 0).await;
    end(&**store, sandbox, EndReason::Balance, 10).await;
    assert_eq!(store.ledger_balance(place.0).await.unwrap(), 1 - 50);
    let mut next = record(place);
    next.price_per_second = 5;
    assert_eq!(kind(&store.sandbox_reserve(reservation(next)).await), "BalanceEmpty");
}

async fn a_failed_create_counts_for_nothing(bed: &Bed) {
    let store = &bed.store;
    let place = both(&**store).await;
    let mut wanted = reservation(record(place));
    wanted.account_limit = 1;
    wanted.events = vec![event(place.0, "http://hook")];
    let Reserved::New(first) = store.sandbox_reserve(wanted.clone()).await.unwrap() else {
        panic!("nothing was there")
    };
    assert!(store.sandbox_forget(first.id, Vec::new()).await.unwrap());
    assert!(!store.sandbox_forget(first.id, Vec::new()).await.unwrap());
    assert_eq!(store.sandbox_get(Owner::Any, first.id).await.unwrap(), None);
    // A refused one leaves nothing either, also not its events.
    wanted.record = record((place.0, NodeId::random().unwrap()));
    wanted.events = vec![event(place.0, "http://hook")];
    let id = wanted.events[0].clone();
    assert_eq!(kind(&store.sandbox_reserve(wanted).await), "Unknown");
    assert!(store.outbox_add(id).await.unwrap(), "it was not there");
    let alive = running(&**store, record(place), 0).await;
    assert!(!store.sandbox_forget(alive.id, Vec::new()).await.unwrap(), "it runs");
    assert_eq!(store.sandbox_alive(Owner::Account(place.0)).await.unwrap(), 1);
}
