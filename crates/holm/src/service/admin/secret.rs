//! Secrets of accounts: on the database or through the service.

use holm_client::rest;
use holm_engine::{AccountId, NewSecret};
use serde::Serialize;

use super::view::{for_table, time};
use super::{Admin, AdminDatabase, AdminService};
use crate::exit::Failure;

/// A secret: never its value.
#[derive(Debug, Serialize)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    headers: Vec<String>,
    allow_plaintext: bool,
    created_at: String,
    updated_at: String,
}

impl SecretView {
    /// The columns of [`Self::row`].
    pub const HEAD: [&'static str; 4] = ["NAME", "HOSTS", "HEADERS", "UPDATED"];

    /// One line of a table.
    #[must_use]
    pub fn row(&self) -> Vec<String> {
        let plain = if self.allow_plaintext { " (also http)" } else { "" };
        let headers = match self.headers.as_slice() {
            [] => "default".to_owned(),
            headers => headers.join(","),
        };
        vec![
            self.name.clone(),
            format!("{}{plain}", self.hosts.join(",")),
            headers,
            for_table(&self.updated_at),
        ]
    }
}

impl From<holm_engine::SecretView> for SecretView {
    fn from(view: holm_engine::SecretView) -> Self {
        Self {
            name: view.name,
            hosts: view.hosts,
            headers: view.headers,
            allow_plaintext: view.allow_plaintext,
            created_at: time(view.created_at),
            updated_at: time(view.updated_at),
        }
    }
}

impl From<rest::Secret> for SecretView {
    fn from(secret: rest::Secret) -> Self {
        Self {
            name: secret.name,
            hosts: secret.hosts,
            headers: secret.headers,
            allow_plaintext: secret.allow_plaintext,
            created_at: secret.created_at,
            updated_at: secret.updated_at,
        }
    }
}

impl Admin {
    /// Whose secrets are meant: on a database somebody has to say it, through a service it is the
    /// key's account.
    ///
    /// # Errors
    /// Where it is not clear.
    pub async fn secret_owner(&self, named: Option<&str>) -> Result<Option<AccountId>, Failure> {
        match (self, named) {
            (Self::Database(_), Some(named)) => self.account_find(named).await.map(Some),
            (Self::Database(_), None) => {
                Err(Failure::usage("it is not clear whose secrets are meant")
                    .hint("name the account with --account; `holm account list` shows them"))
            }
            (Self::Service(_), None) => Ok(None),
            (Self::Service(_), Some(_)) => Err(Failure::usage(
                "--account is for a service's database; through the service it is the key's account",
            )
            .hint("leave it out, and give a key of that account")),
        }
    }

    /// Puts a secret.
    ///
    /// # Errors
    /// What the engine or the service says; the same for all below.
    pub async fn secret_put(
        &self,
        account: Option<AccountId>,
        new: NewSecret,
    ) -> Result<SecretView, Failure> {
        match self {
            Self::Database(database) => database.secret_put(account, new).await,
            Self::Service(service) => service.secret_put(new).await,
        }
    }

    /// All of them by name.
    ///
    /// # Errors
    /// As above.
    pub async fn secret_list(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<SecretView>, Failure> {
        match self {
            Self::Database(database) => database.secret_list(account).await,
            Self::Service(service) => service.secret_list().await,
        }
    }

    /// Removes one.
    ///
    /// # Errors
    /// As above.
    pub async fn secret_delete(
        &self,
        account: Option<AccountId>,
        name: &str,
    ) -> Result<(), Failure> {
        match self {
            Self::Database(database) => database.secret_delete(account, name).await,
            Self::Service(service) => service.secret_delete(name).await,
        }
    }
}

impl AdminDatabase {
    async fn secret_put(
        &self,
        account: Option<AccountId>,
        new: NewSecret,
    ) -> Result<SecretView, Failure> {
        let put = self.of(account).secret_put(new).await;
        put.map(|(view, _)| view.into()).map_err(super::database::failure)
    }

    async fn secret_list(&self, account: Option<AccountId>) -> Result<Vec<SecretView>, Failure> {
        let secrets = self.of(account).secret_list().await.map_err(super::database::failure)?;
        Ok(secrets.into_iter().map(SecretView::from).collect())
    }

    async fn secret_delete(&self, account: Option<AccountId>, name: &str) -> Result<(), Failure> {
        self.of(account).secret_delete(name).await.map_err(super::database::failure)
    }
}

impl AdminService {
    async fn secret_put(&self, new: NewSecret) -> Result<SecretView, Failure> {
        let request = rest::NewSecret {
            value: new.value.reveal().to_owned(),
            hosts: new.hosts,
            headers: new.headers,
            allow_plaintext: new.allow_plaintext,
        };
        let put = self.rest.secret_put(&new.name, &request).await;
        Ok(put.map_err(|said| self.failure(said))?.into())
    }

    async fn secret_list(&self) -> Result<Vec<SecretView>, Failure> {
        let secrets = self.rest.secret_list().await.map_err(|said| self.failure(said))?;
        Ok(secrets.into_iter().map(SecretView::from).collect())
    }

    async fn secret_delete(&self, name: &str) -> Result<(), Failure> {
        self.rest.secret_delete(name).await.map_err(|said| self.failure(said))
    }
}
