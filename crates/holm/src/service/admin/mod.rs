//! Administering a service: accounts, keys and money, on its database or through the service while
//! it runs. Commands ask for what they want and print what they get; they do not see which it is.

mod database;
mod remote;
mod secret;
mod view;

use std::time::Duration;

use holm_engine::{AccountId, EgressPolicy, KeyId, KeyScope};
use jiff::Timestamp;

pub use database::Database as AdminDatabase;
pub use remote::Service as AdminService;
pub use secret::SecretView;
pub use view::{AccountView, KeyView, MadeKey, PaymentView};

use crate::commands::{block_on, start_log};
use crate::exit::Failure;
use crate::settings::{AdminSettings, AdminTarget};

/// An account to make.
#[derive(Debug)]
pub struct NewAccount {
    /// What people will call it.
    pub name: String,
    /// Sandboxes at once; the service's limit where there is none.
    pub max_sandboxes: Option<u32>,
    /// Longest life of a sandbox; the same.
    pub max_lifetime: Option<Duration>,
    /// What its sandboxes may reach at most; the same.
    pub network: Option<EgressPolicy>,
}

/// Other limits for an account: what is there changes, to the service's own where nothing is inside.
#[derive(Debug)]
pub struct AccountChange {
    /// Sandboxes at once.
    pub max_sandboxes: Option<Option<u32>>,
    /// Longest life of a sandbox.
    pub max_lifetime: Option<Option<Duration>>,
    /// What its sandboxes may reach at most.
    pub network: Option<Option<EgressPolicy>>,
}

/// A key to make.
#[derive(Debug)]
pub struct NewKey {
    /// What people will call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<KeyScope>,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

/// One way to administer.
pub enum Admin {
    /// On the database.
    Database(AdminDatabase),
    /// Through the service.
    Service(AdminService),
}

/// Runs `work`, and waits until what it left to be written is written.
///
/// # Errors
/// When the database cannot be opened; what `work` says.
pub fn administer<T>(
    settings: &AdminSettings,
    work: impl AsyncFnOnce(&Admin) -> Result<T, Failure>,
) -> Result<T, Failure> {
    start_log(&settings.host, false)?;
    block_on(async {
        let admin = match &settings.target {
            AdminTarget::Database { database, currency } => {
                Admin::Database(AdminDatabase::open(&settings.host, database, currency).await?)
            }
            AdminTarget::Service(service) => Admin::Service(AdminService::new(service)?),
        };
        let result = work(&admin).await;
        if let Admin::Database(database) = admin {
            database.close().await;
        }
        result
    })
}

impl Admin {
    /// Makes an account.
    ///
    /// # Errors
    /// What the engine or the service says; the same for all below.
    pub async fn account_create(&self, account: NewAccount) -> Result<AccountView, Failure> {
        match self {
            Self::Database(database) => database.account_create(account).await,
            Self::Service(service) => service.account_create(account).await,
        }
    }

    /// Gives an account other limits.
    ///
    /// # Errors
    /// As above.
    pub async fn account_change(
        &self,
        account: AccountId,
        change: AccountChange,
    ) -> Result<AccountView, Failure> {
        match self {
            Self::Database(database) => database.account_change(account, change).await,
            Self::Service(service) => service.account_change(account, change).await,
        }
    }

    /// All accounts and what they have, newest first.
    ///
    /// # Errors
    /// As above.
    pub async fn account_list(&self) -> Result<Vec<AccountView>, Failure> {
        match self {
            Self::Database(database) => database.account_list().await,
            Self::Service(service) => service.account_list().await,
        }
    }

    /// The account that a person means: by its id, or by its name if only one has it.
    ///
    /// # Errors
    /// Where that is none, or several.
    pub async fn account_find(&self, named: &str) -> Result<AccountId, Failure> {
        if let Ok(id) = named.parse() {
            return Ok(id);
        }
        let accounts = match self {
            Self::Database(database) => database.account_names().await?,
            Self::Service(service) => service.account_names().await?,
        };
        let mut found = accounts.into_iter().filter(|(_, name)| name == named);
        match (found.next(), found.next()) {
            (Some((id, _)), None) => Ok(id),
            (Some(_), Some(_)) => {
                Err(Failure::usage(format!("several accounts are called `{named}`"))
                    .hint("name it by its id; `holm account list` shows them"))
            }
            (None, _) => Err(Failure::usage(format!("there is no account `{named}`"))
                .hint("`holm account list` shows them; `holm account create` makes one")),
        }
    }

    /// Pays in `amount` millionths.
    ///
    /// # Errors
    /// As above.
    pub async fn account_topup(
        &self,
        account: AccountId,
        amount: i64,
        reference: Option<String>,
    ) -> Result<PaymentView, Failure> {
        match self {
            Self::Database(database) => database.account_topup(account, amount, reference).await,
            Self::Service(service) => service.account_topup(account, amount, reference).await,
        }
    }

    /// Makes a key.
    ///
    /// # Errors
    /// As above.
    pub async fn key_create(&self, account: AccountId, key: NewKey) -> Result<MadeKey, Failure> {
        match self {
            Self::Database(database) => database.key_create(account, key).await,
            Self::Service(service) => service.key_create(account, key).await,
        }
    }

    /// One account's keys, or all, newest first.
    ///
    /// # Errors
    /// As above.
    pub async fn key_list(&self, account: Option<AccountId>) -> Result<Vec<KeyView>, Failure> {
        match self {
            Self::Database(database) => database.key_list(account).await,
            Self::Service(service) => service.key_list(account).await,
        }
    }

    /// Revokes a key.
    ///
    /// # Errors
    /// As above.
    pub async fn key_revoke(&self, key: KeyId) -> Result<KeyView, Failure> {
        match self {
            Self::Database(database) => database.key_revoke(key).await,
            Self::Service(service) => service.key_revoke(key).await,
        }
    }
}
