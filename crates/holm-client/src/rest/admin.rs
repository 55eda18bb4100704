//! Accounts, keys and money, for administrators.

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Failure, Rest};
use crate::client::{Repeat, Request};

/// Items of a page: as many as the service gives at once; and pages of a list at most.
const PAGE: u32 = 1000;
const PAGES: usize = 1000;

/// An account.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Account {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// Sandboxes at once; nothing for the service's limit.
    pub max_sandboxes: Option<u32>,
    /// Longest life of a sandbox; nothing for the service's limit.
    pub max_lifetime_minutes: Option<u64>,
    /// What its sandboxes may reach at most; nothing for what the service permits.
    pub network: Option<Value>,
    /// When it was disabled.
    pub disabled_at: Option<String>,
    /// What it has, in units of the currency; lists leave it out.
    pub balance: Option<f64>,
}

/// An account to make.
#[derive(Debug, Clone, Serialize)]
pub struct NewAccount {
    /// What people will call it.
    pub name: String,
    /// Sandboxes at once; nothing for the service's limit.
    pub max_sandboxes: Option<u32>,
    /// Longest life of a sandbox; nothing for the service's limit.
    pub max_lifetime_minutes: Option<u64>,
    /// What its sandboxes may reach at most; nothing for what the service permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Value>,
}

/// Other limits for an account: a field that is there counts, also when it is null, which is the
/// service's own.
pub type AccountChange = serde_json::Map<String, Value>;

/// A payment.
#[derive(Debug, Clone, Serialize)]
pub struct Topup {
    /// How much, in units of the currency.
    pub amount: f64,
    /// The payer's own mark, under which the payment counts once.
    pub reference: Option<String>,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Whose money.
    pub account_id: String,
    /// How much, in units of the currency.
    pub amount: f64,
    /// What the account had after it.
    pub balance_after: f64,
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub account_id: String,
    /// What people call it.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// Whether it works.
    pub status: String,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// From when on it is refused.
    pub expires_at: Option<String>,
    /// When it was last used.
    pub last_used_at: Option<String>,
    /// When it was revoked.
    pub revoked_at: Option<String>,
}

/// A key to make.
#[derive(Debug, Clone, Serialize)]
pub struct NewKey {
    /// Whose it will be.
    pub account_id: String,
    /// What people will call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// From when on it is refused (RFC 3339).
    pub expires_at: Option<String>,
}

/// A key that was made. Not printed by accident.
#[derive(Clone, Deserialize)]
pub struct KeyMade {
    /// The key itself.
    pub secret: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub key: Key,
}

impl std::fmt::Debug for KeyMade {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("KeyMade").field(&self.key.id).finish()
    }
}

#[derive(Deserialize)]
struct Info {
    prices: Prices,
}

#[derive(Deserialize)]
struct Prices {
    currency: String,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(alias = "accounts", alias = "keys")]
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl Rest {
    /// What money is counted in.
    ///
    /// # Errors
    /// When the service does not say it.
    pub async fn currency(&self) -> Result<String, Failure> {
        let info: Info = self.get("/v1/service-info".to_owned()).await?;
        Ok(info.prices.currency)
    }

    /// Makes an account.
    ///
    /// # Errors
    /// When it may not be made.
    pub async fn account_create(&self, account: &NewAccount) -> Result<Account, Failure> {
        self.post("/v1/accounts", &json!(account), Repeat::Untaken).await
    }

    /// Gives an account other limits.
    ///
    /// # Errors
    /// When there is none, or it may not be done.
    pub async fn account_change(
        &self,
        id: &str,
        change: AccountChange,
    ) -> Result<Account, Failure> {
        self.patch(&format!("/v1/accounts/{id}"), &change.into()).await
    }

    /// All accounts, newest first, without their balances.
    ///
    /// # Errors
    /// When they may not be seen.
    pub async fn account_list(&self) -> Result<Vec<Account>, Failure> {
        self.all(format!("/v1/accounts?limit={PAGE}")).await
    }

    /// One account, with its balance.
    ///
    /// # Errors
    /// When there is none, or it may not be seen.
    pub async fn account_get(&self, id: &str) -> Result<Account, Failure> {
        self.get(format!("/v1/accounts/{id}")).await
    }

    /// Pays in. A payment with a reference counts once, so it is sent again where its answer was
    /// lost.
    ///
    /// # Errors
    /// When it may not be done.
    pub async fn account_topup(&self, id: &str, topup: &Topup) -> Result<Entry, Failure> {
        let repeat = match topup.reference {
            Some(_) => Repeat::Always,
            None => Repeat::Untaken,
        };
        self.post(&format!("/v1/accounts/{id}/topup"), &json!(topup), repeat).await
    }

    /// Makes a key.
    ///
    /// # Errors
    /// When it may not be made.
    pub async fn key_create(&self, key: &NewKey) -> Result<KeyMade, Failure> {
        self.post("/v1/keys", &json!(key), Repeat::Untaken).await
    }

    /// One account's keys, or all, newest first.
    ///
    /// # Errors
    /// When they may not be seen.
    pub async fn key_list(&self, account: Option<&str>) -> Result<Vec<Key>, Failure> {
        let of = account.map(|id| format!("&account_id={id}")).unwrap_or_default();
        self.all(format!("/v1/keys?limit={PAGE}{of}")).await
    }

    /// Revokes a key; one that is revoked stays as it is.
    ///
    /// # Errors
    /// When there is none, or it may not be done.
    pub async fn key_revoke(&self, id: &str) -> Result<Key, Failure> {
        self.ask(Request::new(Method::DELETE, format!("/v1/keys/{id}"))).await
    }

    /// All pages of a list. Cursors are of characters that a query takes as they are.
    async fn all<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<Vec<T>, Failure> {
        let mut page: Page<T> = self.get(path.clone()).await?;
        let mut all = page.items;
        for _ in 1..PAGES {
            let Some(cursor) = page.next_cursor else { break };
            page = self.get(format!("{path}&cursor={cursor}")).await?;
            all.append(&mut page.items);
        }
        Ok(all)
    }
}
