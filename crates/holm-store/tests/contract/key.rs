//! API keys.

use holm_store::{KeyHasher, KeyStatus, Owner, PageQuery, TOUCH_SECONDS};

use crate::support::{Bed, account, at, contract, key, kind};

contract! {
    found_by_its_hash_only revoking_works_at_once a_foreign_key_looks_missing use_is_noted_coarsely
}

async fn found_by_its_hash_only(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    let (mut new, hash, text) = key(id);
    new.expires_at = Some(at(100));
    assert_eq!(store.key_create(new.clone(), hash).await.unwrap(), new);
    let (found, account) = store.key_by_hash(hash).await.unwrap().unwrap();
    assert_eq!((&found, account.id), (&new, id));
    assert_eq!(found.status(at(99)), KeyStatus::Active);
    assert_eq!(found.status(at(100)), KeyStatus::Expired);
    let other_installation = KeyHasher::new(&[8; 32]).hash(text.reveal());
    assert_eq!(store.key_by_hash(other_installation).await.unwrap(), None);
    let (_, other_hash, _) = key(id);
    assert_eq!(kind(&store.key_create(new.clone(), other_hash).await), "Exists", "the same id");
    let (other, ..) = key(id);
    assert_eq!(kind(&store.key_create(other, hash).await), "Exists", "the same key");
    let (orphan, hash, _) = key(holm_store::AccountId::random().unwrap());
    assert_eq!(kind(&store.key_create(orphan, hash).await), "Unknown");
}

async fn revoking_works_at_once(bed: &Bed) {
    let store = &bed.store;
    let (new, hash, _) = key(account(&**store).await);
    store.key_create(new.clone(), hash).await.unwrap();
    store.key_by_hash(hash).await.unwrap().unwrap();
    let owner = Owner::Account(new.account_id);
    let revoked = store.key_revoke(owner, new.id, at(50)).await.unwrap();
    assert_eq!(revoked.revoked_at, Some(at(50)));
    let (found, _) = store.key_by_hash(hash).await.unwrap().unwrap();
    assert_eq!(found.status(at(0)), KeyStatus::Revoked);
    let again = store.key_revoke(owner, new.id, at(60)).await.unwrap();
    assert_eq!(again.revoked_at, Some(at(50)), "the first time counts");
    let id = holm_store::KeyId::random().unwrap();
    assert_eq!(kind(&store.key_revoke(Owner::Any, id, at(50)).await), "Unknown");
}

async fn a_foreign_key_looks_missing(bed: &Bed) {
    let store = &bed.store;
    let (new, hash, _) = key(account(&**store).await);
    store.key_create(new.clone(), hash).await.unwrap();
    let foreign = Owner::Account(account(&**store).await);
    assert_eq!(store.key_get(foreign, new.id).await.unwrap(), None);
    assert_eq!(store.key_list(foreign, PageQuery::first(9)).await.unwrap().items, []);
    assert_eq!(kind(&store.key_revoke(foreign, new.id, at(1)).await), "Unknown");
    assert_eq!(store.key_get(Owner::Any, new.id).await.unwrap(), Some(new.clone()));
    let own = Owner::Account(new.account_id);
    assert_eq!(store.key_list(own, PageQuery::first(9)).await.unwrap().items, [new]);
}

async fn use_is_noted_coarsely(bed: &Bed) {
    let store = &bed.store;
    let (new, hash, _) = key(account(&**store).await);
    store.key_create(new, hash).await.unwrap();
    let mut seen = Vec::new();
    for second in [10, 11, 10 + TOUCH_SECONDS - 1, 10 + TOUCH_SECONDS, 5] {
        let (key, _) = store.key_by_hash(hash).await.unwrap().unwrap();
        store.key_touch(key, at(second)).await.unwrap();
        let (key, _) = store.key_by_hash(hash).await.unwrap().unwrap();
        seen.push(key.last_used_at.unwrap());
    }
    let late = at(10 + TOUCH_SECONDS);
    assert_eq!(seen, [at(10), at(10), at(10), late, late]);
}
