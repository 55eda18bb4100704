//! Secrets of accounts.

use holm_store::{AccountId, Sealer, Secret, SecretText};

use crate::support::{Bed, account, at, contract, kind};

contract! { put_list_and_delete as_many_as_the_limit one_is_sealed_anew_unless_it_changed }

fn secret(account_id: AccountId, name: &str, second: i64) -> Secret {
    let mut secret = Secret {
        account_id,
        name: name.to_owned(),
        sealed: Vec::new(),
        hosts: vec!["api.example.com".to_owned(), "*.example.org".to_owned()],
        headers: vec!["authorization".to_owned()],
        allow_plaintext: false,
        created_at: at(second),
        updated_at: at(second),
    };
    let sealer = Sealer::new(&[[3; 32]]).unwrap();
    sealer.seal(&mut secret, &SecretText::new(format!("{name} {second}"))).unwrap();
    secret
}

async fn put_list_and_delete(bed: &Bed) {
    let store = &bed.store;
    let (own, foreign) = (account(&**store).await, account(&**store).await);
    let (b, a) = (secret(own, "B", 1), secret(own, "A", 2));
    assert!(store.secret_put(b.clone(), 9).await.unwrap());
    assert!(store.secret_put(a.clone(), 9).await.unwrap());
    let theirs = secret(foreign, "A", 2);
    assert!(store.secret_put(theirs.clone(), 9).await.unwrap());
    assert_eq!(store.secret_list(own).await.unwrap(), [a.clone(), b.clone()]);
    let mut newer = Secret { allow_plaintext: true, headers: vec![], ..secret(own, "A", 7) };
    assert!(!store.secret_put(newer.clone(), 9).await.unwrap(), "it was there");
    newer.created_at = at(2);
    assert_eq!(store.secret_list(own).await.unwrap(), [newer.clone(), b.clone()]);
    let mut all = [theirs.clone(), newer, b];
    all.sort_by(|a, b| (a.account_id, &a.name).cmp(&(b.account_id, &b.name)));
    assert_eq!(store.secret_all().await.unwrap(), all);
    assert!(store.secret_delete(own, "A".to_owned()).await.unwrap());
    assert!(!store.secret_delete(own, "A".to_owned()).await.unwrap());
    assert_eq!(store.secret_list(foreign).await.unwrap(), [theirs]);
    let nobody = secret(AccountId::random().unwrap(), "A", 1);
    assert_eq!(kind(&store.secret_put(nobody, 9).await), "Unknown");
}

async fn as_many_as_the_limit(bed: &Bed) {
    let store = &bed.store;
    let own = account(&**store).await;
    for name in ["A", "B"] {
        store.secret_put(secret(own, name, 1), 2).await.unwrap();
    }
    assert_eq!(kind(&store.secret_put(secret(own, "C", 1), 2).await), "Invalid");
    assert!(!store.secret_put(secret(own, "B", 2), 2).await.unwrap(), "no further one");
    let other = account(&**store).await;
    assert!(store.secret_put(secret(other, "A", 1), 2).await.unwrap());
}

async fn one_is_sealed_anew_unless_it_changed(bed: &Bed) {
    let store = &bed.store;
    let own = account(&**store).await;
    let (old, new) = (secret(own, "A", 1), secret(own, "A", 2));
    store.secret_put(old.clone(), 9).await.unwrap();
    assert!(store.secret_reseal(old.clone(), new.sealed.clone()).await.unwrap());
    let there = store.secret_list(own).await.unwrap();
    assert_eq!(there, [Secret { sealed: new.sealed, ..old.clone() }]);
    assert!(!store.secret_reseal(old, vec![1]).await.unwrap(), "somebody was faster");
    assert_eq!(store.secret_list(own).await.unwrap(), there);
}
