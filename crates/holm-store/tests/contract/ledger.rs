//! Money paid in, and the list of it.

use holm_store::{AccountId, Credit, EntryKind, PageQuery};

use crate::support::{Bed, account, contract, kind, topup};

contract! { a_balance_is_the_sum a_payment_counts_once wrong_amounts lists_are_newest_first }

async fn a_balance_is_the_sum(bed: &Bed) {
    let store = &bed.store;
    let (id, other) = (account(&**store).await, account(&**store).await);
    assert_eq!(store.ledger_balance(id).await.unwrap(), 0);
    let mut sum = 0;
    for (kind, amount) in
        [(EntryKind::Topup, 1_000_000), (EntryKind::Adjust, -1_500_000), (EntryKind::Topup, 7)]
    {
        sum += amount;
        let credit = Credit { account_id: id, kind, amount, reference: None };
        let entry = store.ledger_add(credit).await.unwrap();
        assert_eq!((entry.amount, entry.balance_after, entry.kind), (amount, sum, kind));
        assert_eq!(store.ledger_balance(id).await.unwrap(), sum);
    }
    let check = store.ledger_check(id).await.unwrap();
    assert_eq!((check.sum, check.balance, check.entries), (sum, sum, 3));
    assert_eq!(store.ledger_balance(other).await.unwrap(), 0);
    let nobody = AccountId::random().unwrap();
    assert_eq!(kind(&store.ledger_balance(nobody).await), "Unknown");
    assert_eq!(kind(&store.ledger_check(nobody).await), "Unknown");
    assert_eq!(kind(&store.ledger_add(topup(nobody, 1)).await), "Unknown");
}

async fn a_payment_counts_once(bed: &Bed) {
    let store = &bed.store;
    let (id, other) = (account(&**store).await, account(&**store).await);
    let mut paid = topup(id, 500);
    paid.reference = Some("invoice 7".to_owned());
    let first = store.ledger_add(paid.clone()).await.unwrap();
    assert_eq!(store.ledger_add(paid.clone()).await.unwrap(), first);
    assert_eq!(store.ledger_balance(id).await.unwrap(), 500);
    let differs = Credit { amount: 501, ..paid.clone() };
    assert_eq!(kind(&store.ledger_add(differs).await), "Exists");
    let elsewhere = Credit { account_id: other, ..paid };
    assert_eq!(store.ledger_add(elsewhere).await.unwrap().balance_after, 500);
}

async fn wrong_amounts(bed: &Bed) {
    let store = &bed.store;
    let id = account(&**store).await;
    for (entry_kind, amount, want) in [
        (EntryKind::Topup, 0, "Invalid"),
        (EntryKind::Topup, -1, "Invalid"),
        (EntryKind::Adjust, 0, "Invalid"),
        (EntryKind::Usage, -1, "Invalid"),
        (EntryKind::Topup, i64::MAX, "Ok"),
        (EntryKind::Topup, 1, "Invalid"),
        (EntryKind::Adjust, -1, "Ok"),
    ] {
        let credit = Credit { account_id: id, kind: entry_kind, amount, reference: None };
        assert_eq!(kind(&store.ledger_add(credit).await), want, "{entry_kind} {amount}");
    }
}

async fn lists_are_newest_first(bed: &Bed) {
    let store = &bed.store;
    let (id, other) = (account(&**store).await, account(&**store).await);
    for amount in 1..=5 {
        store.ledger_add(topup(id, amount)).await.unwrap();
        store.ledger_add(topup(other, 100)).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut query = PageQuery::first(2);
    loop {
        let page = store.ledger_list(id, query.clone()).await.unwrap();
        seen.extend(page.items.iter().map(|entry| (entry.number, entry.amount)));
        let Some(next) = page.next else { break };
        query.after = Some(next.to_string().parse().unwrap());
    }
    assert_eq!(seen, [(5, 5), (4, 4), (3, 3), (2, 2), (1, 1)]);
}
