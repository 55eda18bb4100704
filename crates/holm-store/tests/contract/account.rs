//! Accounts.

use std::time::Duration;

use holm_store::{Account, AccountId, AccountLimits, PageQuery};

use crate::support::{Bed, account, at, contract, kind};

contract! { what_is_created_reads_back limits_and_disabling lists_are_newest_first odd_texts }

async fn what_is_created_reads_back(bed: &Bed) {
    let store = &bed.store;
    let mut new = Account::new(AccountId::random().unwrap(), "Ärger & Söhne '; --");
    new.created_at = at(5);
    new.limits.max_sandboxes = Some(3);
    assert_eq!(store.account_create(new.clone()).await.unwrap(), new);
    assert_eq!(store.account_get(new.id).await.unwrap(), Some(new.clone()));
    assert_eq!(kind(&store.account_create(new).await), "Exists");
    let nobody = AccountId::random().unwrap();
    assert_eq!(store.account_get(nobody).await.unwrap(), None);
}

async fn limits_and_disabling(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    let limits = AccountLimits {
        max_sandboxes: Some(0),
        max_lifetime: Some(Duration::from_secs(3600)),
        network: Some(serde_json::json!({"mode": "allow", "allow": ["pkg.example.org:443"]})),
    };
    assert_eq!(store.account_set_limits(id, limits.clone()).await.unwrap().limits, limits);
    let disabled = store.account_set_disabled(id, Some(at(9))).await.unwrap();
    assert_eq!((disabled.disabled_at, disabled.limits), (Some(at(9)), limits.clone()));
    assert_eq!(store.account_set_disabled(id, None).await.unwrap().disabled_at, None);
    let nobody = AccountId::random().unwrap();
    assert_eq!(kind(&store.account_set_limits(nobody, limits).await), "Unknown");
    let none = AccountLimits::default();
    assert_eq!(store.account_set_limits(id, none.clone()).await.unwrap().limits, none);
    assert_eq!(kind(&store.account_set_disabled(nobody, None).await), "Unknown");
}

async fn lists_are_newest_first(bed: &Bed) {
    let store = &bed.store;
    let mut made = Vec::new();
    // Two of the same moment: the id decides, and none is lost between pages.
    for second in [1, 2, 2, 3, 4] {
        let mut new = Account::new(AccountId::random().unwrap(), format!("of {second}"));
        new.created_at = at(second);
        made.push((new.created_at, new.id));
        store.account_create(new).await.unwrap();
    }
    made.sort_unstable();
    made.reverse();
    let mut seen = Vec::new();
    let mut query = PageQuery::first(2);
    loop {
        let page = store.account_list(query.clone()).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|account| (account.created_at, account.id)));
        // As a caller sends it back.
        let Some(next) = page.next else { break };
        query.after = Some(next.to_string().parse().unwrap());
    }
    assert_eq!(seen, made);
    let all = store.account_list(PageQuery::first(u32::MAX)).await.unwrap();
    assert_eq!((all.items.len(), all.next), (5, None));
    assert_eq!(store.account_list(PageQuery::first(0)).await.unwrap().items.len(), 1);
}

/// Both databases keep and refuse the same.
async fn odd_texts(bed: &Bed) {
    let long = "x".repeat(100_000);
    for (name, want) in
        [("", "Ok"), ("\u{1}\u{ffff}\r\n\u{1f600}", "Ok"), (&*long, "Ok"), ("a\0b", "Invalid")]
    {
        let new = Account::new(AccountId::random().unwrap(), name);
        let result = bed.store.account_create(new).await;
        assert_eq!(kind(&result), want, "{name:?}");
        if let Ok(account) = result {
            assert_eq!(account.name, name);
        }
    }
}
