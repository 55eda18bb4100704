//! What the ledger holds of sandboxes that have all ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use holm_store::{AccountId, Owner, PageQuery, SandboxId, Store};
use jiff::Timestamp;

/// What the ledger says of one sandbox.
#[derive(Default)]
struct Billed {
    amount: i64,
    seconds: i64,
    /// Of the oldest entry that was read.
    from: Option<Timestamp>,
}

/// Every second of every sandbox is paid for once: what each has cost is its whole seconds, and
/// the ledger holds that and nothing else. Gives what all of it has cost.
pub async fn check(store: &dyn Store) -> i64 {
    let mut accounts: HashMap<AccountId, HashMap<SandboxId, Billed>> = HashMap::new();
    let mut spent = 0;
    let mut after = None;
    loop {
        let query = PageQuery { limit: 200, after };
        let page = store.sandbox_list(Owner::Any, query, true).await.expect("records");
        for record in &page.items {
            let billed = match accounts.entry(record.account_id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(account(store, record.account_id).await),
            };
            let billed = billed.remove(&record.id).unwrap_or_default();
            let ended = record.ended.expect("it has ended");
            let lived = record.seconds(ended.at).floor();
            assert_eq!(billed.seconds as f64, lived, "{record:?}");
            assert_eq!(record.charged_seconds(), billed.seconds, "{record:?}");
            assert_eq!(billed.amount, record.cost(), "{record:?}");
            assert!(billed.from.is_none_or(|from| Some(from) == record.ready_at), "{record:?}");
            spent += billed.amount;
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(accounts.values().all(HashMap::is_empty), "money for what never was");
    spent
}

/// What an account's ledger says of each sandbox; its sums are right.
async fn account(store: &dyn Store, id: AccountId) -> HashMap<SandboxId, Billed> {
    let mut sandboxes: HashMap<SandboxId, Billed> = HashMap::new();
    let (mut spent, mut topped) = (0, 0);
    let mut after = None;
    loop {
        let query = PageQuery { limit: 200, after };
        let page = store.ledger_list(id, query).await.expect("entries");
        for entry in &page.items {
            let Some(usage) = entry.usage else {
                topped += entry.amount;
                continue;
            };
            spent -= entry.amount;
            let billed = sandboxes.entry(usage.sandbox_id).or_default();
            // Newest first: each begins where the one before it ends.
            assert!(billed.from.is_none_or(|begin| begin == usage.to), "{entry:?}");
            billed.from = Some(usage.from);
            billed.amount -= entry.amount;
            billed.seconds += usage.to.duration_since(usage.from).as_secs();
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let check = store.ledger_check(id).await.expect("a check");
    assert_eq!((check.sum, check.balance), (topped - spent, topped - spent));
    sandboxes
}
