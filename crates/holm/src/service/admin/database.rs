//! The engine of a service, for administering it beside or without the service itself: it uses the
//! same database, and makes no sandboxes.
//!
//! Both databases take several processes at once, and nothing that the service decides by is
//! cached, so what is done here counts for it at once.

use std::sync::Arc;

use holm_engine::{
    Account, AccountId, AccountLimits, Caller, Engine, EngineSettings, Key, KeyId, Page, PageQuery,
    Store,
};
use holm_runtime::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, Machine, SandboxSpec,
};

use super::{AccountChange, AccountView, KeyView, MadeKey, NewAccount, NewKey, PaymentView};
use crate::commands::{data_dir, engine_failure};
use crate::exit::Failure;
use crate::service::{self, Place};
use crate::settings::HostSettings;

/// Items of a page.
const PAGE: u32 = 1000;

/// Makes no sandboxes.
#[derive(Debug)]
struct NoSandboxes(Enforcement);

impl Driver for NoSandboxes {
    fn create(&self, _: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>> {
        Box::pin(std::future::ready(Err(DriverError {
            kind: DriverErrorKind::HostExhausted,
            message: "this process administers a service and makes no sandboxes".to_owned(),
            internal: "an engine for administration was asked for a sandbox".to_owned(),
        })))
    }

    fn enforcement(&self) -> &Enforcement {
        &self.0
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A service's database, and its operator's engine on it.
pub struct Database {
    engine: Engine,
    store: Arc<dyn Store>,
    currency: String,
}

impl Database {
    /// Opens it.
    ///
    /// # Errors
    /// When that does not go.
    pub async fn open(
        host: &HostSettings,
        database: &service::Database,
        currency: &str,
    ) -> Result<Self, Failure> {
        let place = Place::open(&data_dir(host))?;
        let store: Arc<dyn Store> = database.open(&place).await?;
        let settings = EngineSettings {
            keys: Some(place.keys()?),
            sealer: Some(place.sealer()?),
            ..EngineSettings::service()
        };
        let driver = NoSandboxes(Enforcement {
            mode: "administration".to_owned(),
            ..Enforcement::default()
        });
        let engine = Engine::with_store(Arc::new(driver), settings, Arc::clone(&store));
        Ok(Self { engine, store, currency: currency.to_owned() })
    }

    /// Writes what is left to be written.
    pub async fn close(self) {
        self.engine.shutdown().await;
        self.store.close().await;
    }

    pub(super) async fn account_create(&self, new: NewAccount) -> Result<AccountView, Failure> {
        let limits = AccountLimits {
            max_sandboxes: new.max_sandboxes,
            max_lifetime: new.max_lifetime,
            network: new.network.map(|network| network.to_json()),
        };
        let request = holm_engine::NewAccount { name: new.name, limits };
        let account = self.engine.account_create(request).await.map_err(failure)?;
        Ok(AccountView::of_engine(&account, 0, &self.currency))
    }

    pub(super) async fn account_change(
        &self,
        id: AccountId,
        change: AccountChange,
    ) -> Result<AccountView, Failure> {
        let change = holm_engine::AccountChange {
            max_sandboxes: change.max_sandboxes,
            max_lifetime: change.max_lifetime,
            network: change.network,
        };
        let account = self.engine.account_change(id, change).await.map_err(failure)?;
        let balance = self.engine.account_balance(id).await.map_err(failure)?;
        Ok(AccountView::of_engine(&account, balance, &self.currency))
    }

    /// The same engine for what belongs to an account.
    pub(super) fn of(&self, account: Option<AccountId>) -> Engine {
        let account = account.unwrap_or(Caller::local().account);
        self.engine.for_caller(Caller { account, ..Caller::local() })
    }

    pub(super) async fn account_list(&self) -> Result<Vec<AccountView>, Failure> {
        let mut views = Vec::new();
        for account in self.accounts().await? {
            let balance = self.engine.account_balance(account.id).await.map_err(failure)?;
            views.push(AccountView::of_engine(&account, balance, &self.currency));
        }
        Ok(views)
    }

    pub(super) async fn account_names(&self) -> Result<Vec<(AccountId, String)>, Failure> {
        let accounts = self.accounts().await?;
        Ok(accounts.into_iter().map(|account| (account.id, account.name)).collect())
    }

    pub(super) async fn account_topup(
        &self,
        account: AccountId,
        amount: i64,
        reference: Option<String>,
    ) -> Result<PaymentView, Failure> {
        let entry = self.engine.account_topup(account, amount, reference).await;
        Ok(PaymentView::of_engine(&entry.map_err(failure)?, &self.currency))
    }

    pub(super) async fn key_create(
        &self,
        account: AccountId,
        new: NewKey,
    ) -> Result<MadeKey, Failure> {
        let NewKey { name, scopes, expires_at } = new;
        let scopes = scopes.into_iter().collect();
        let request = holm_engine::NewKey { account, name, scopes, expires_at };
        let made = self.engine.key_create(request).await.map_err(failure)?;
        Ok(MadeKey { key: made.text.reveal().to_owned(), view: (&made.key).into() })
    }

    pub(super) async fn key_list(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<KeyView>, Failure> {
        let keys: Vec<Key> = all(async |page| self.engine.key_list(account, page).await).await?;
        Ok(keys.iter().map(KeyView::from).collect())
    }

    pub(super) async fn key_revoke(&self, key: KeyId) -> Result<KeyView, Failure> {
        let revoked = self.engine.key_revoke(key).await.map_err(failure)?;
        Ok((&revoked).into())
    }

    async fn accounts(&self) -> Result<Vec<Account>, Failure> {
        all(async |page| self.engine.account_list(page).await).await
    }
}

/// All pages of a list.
async fn all<T>(
    list: impl AsyncFn(PageQuery) -> Result<Page<T>, holm_engine::Error>,
) -> Result<Vec<T>, Failure> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = list(PageQuery { limit: PAGE, after }).await.map_err(failure)?;
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn failure(error: holm_engine::Error) -> Failure {
    engine_failure(&error)
}
