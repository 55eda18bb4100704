//! An engine as a service has it: several accounts with keys over one store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use holm_engine::{
    AccountId, AccountLimits, Caller, Engine, EngineSettings, KeyHasher, KeyScope, MemoryStore,
    NewAccount, NewKey, PageQuery, Prices, Store, Uplink, UplinkOptions,
};

use super::{FakeDriver, settings};

/// Micro-units per second of a small sandbox.
pub const PRICE: i64 = 100;

/// What outlives an engine, and the engine.
pub struct Service {
    pub store: Arc<dyn Store>,
    pub settings: EngineSettings,
    pub driver: Arc<FakeDriver>,
    /// Its operator's handle.
    pub engine: Engine,
}

impl Service {
    /// Without prices.
    pub fn new() -> Self {
        Self::with(settings())
    }

    /// With prices.
    pub fn priced() -> Self {
        let prices = Prices { small: PRICE, medium: 2 * PRICE, large: 4 * PRICE };
        Self::with(EngineSettings { prices, ..settings() })
    }

    pub fn with(settings: EngineSettings) -> Self {
        let keys = Some(KeyHasher::new(&[7; 32]));
        let settings = EngineSettings { keys, ..settings };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(1000));
        let driver = Arc::new(FakeDriver::default());
        let engine =
            Engine::with_store(Arc::clone(&driver) as _, settings.clone(), Arc::clone(&store));
        Self { store, settings, driver, engine }
    }

    /// The engine is gone without a word, and with it all sandboxes; another one starts.
    pub async fn crash(&mut self) {
        let driver = Arc::new(FakeDriver::default());
        let (settings, store) = (self.settings.clone(), Arc::clone(&self.store));
        self.engine = Engine::with_store(Arc::clone(&driver) as _, settings, store);
        self.driver = driver;
        self.engine.start().await.unwrap();
    }

    /// One whose sandboxes go on when it does not.
    pub fn outlived() -> Self {
        let service = Self::priced();
        service.driver.outlived.store(true, Ordering::SeqCst);
        service
    }

    /// The same, with gates.
    pub fn gated() -> Self {
        let uplink = Uplink::new(UplinkOptions::default()).unwrap();
        let service = Self::with(EngineSettings { uplink: Some(uplink), ..settings() });
        service.driver.outlived.store(true, Ordering::SeqCst);
        service.driver.gates.store(true, Ordering::SeqCst);
        service
    }

    /// The engine is gone without a word, its sandboxes are not. Nothing has started yet.
    pub fn kill(&mut self) {
        let driver = Arc::new(FakeDriver::after(&self.driver));
        let (settings, store) = (self.settings.clone(), Arc::clone(&self.store));
        self.engine = Engine::with_store(Arc::clone(&driver) as _, settings, store);
        self.driver = driver;
    }

    pub async fn account(&self) -> AccountId {
        self.account_with(AccountLimits::default()).await
    }

    pub async fn account_with(&self, limits: AccountLimits) -> AccountId {
        let request = NewAccount { name: "somebody".to_owned(), limits };
        self.engine.account_create(request).await.unwrap().id
    }

    /// Somebody of that account with a new key.
    pub async fn user(&self, account: AccountId) -> Engine {
        self.user_with(account, &[KeyScope::Read, KeyScope::Sandboxes]).await
    }

    pub async fn user_with(&self, account: AccountId, scopes: &[KeyScope]) -> Engine {
        let scopes: BTreeSet<KeyScope> = scopes.iter().copied().collect();
        let request = NewKey { scopes, ..NewKey::new(account, "laptop") };
        let created = self.engine.key_create(request).await.unwrap();
        let caller = self.engine.authenticate(created.text.reveal()).await.unwrap();
        self.engine.for_caller(caller.unwrap())
    }

    /// An account, and somebody of it.
    pub async fn tenant(&self) -> (AccountId, Engine) {
        let account = self.account().await;
        (account, self.user(account).await)
    }

    pub async fn topup(&self, account: AccountId, amount: i64) {
        self.engine.account_topup(account, amount, None).await.unwrap();
    }

    pub async fn balance(&self, account: AccountId) -> i64 {
        self.engine.account_balance(account).await.unwrap()
    }

    /// That the ledger adds up, no second of a sandbox is in two entries, and none is left out
    /// between two.
    pub async fn check_ledger(&self, account: AccountId) {
        let check = self.store.ledger_check(account).await.unwrap();
        assert_eq!(check.sum, check.balance);
        let page = self.store.ledger_list(account, PageQuery::first(1000)).await.unwrap();
        assert!(page.next.is_none(), "one page is enough for a test");
        let mut ends = std::collections::HashMap::new();
        for usage in page.items.iter().rev().filter_map(|entry| entry.usage) {
            let end = ends.insert(usage.sandbox_id, usage.to);
            assert!(end.is_none_or(|end| end == usage.from), "{end:?} and then {usage:?}");
        }
    }

    /// Whole seconds of a caller that were charged.
    pub async fn charged(&self, account: AccountId) -> i64 {
        let page = self.store.ledger_list(account, PageQuery::first(1000)).await.unwrap();
        let usages = page.items.iter().filter_map(|entry| entry.usage);
        usages.map(|usage| usage.to.duration_since(usage.from).as_secs()).sum()
    }

    /// What the audit log holds, oldest first: action and outcome.
    pub async fn audited(&self) -> Vec<String> {
        let page = self.engine.audit_list(None, PageQuery::first(1000)).await.unwrap();
        let mut texts: Vec<String> =
            page.items.iter().map(|event| format!("{} {}", event.action, event.outcome)).collect();
        texts.reverse();
        texts
    }
}

/// Implies nothing: an account without a key.
pub fn caller(account: AccountId, scopes: &[KeyScope]) -> Caller {
    Caller { account, scopes: scopes.iter().copied().collect(), ..Caller::local() }
}
