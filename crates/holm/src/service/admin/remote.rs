//! Administering a service through its REST, while it runs here or elsewhere.

use std::time::Duration;

use holm_client::rest::{self, Failure as Said, Rest};
use holm_client::{Client, Error, ErrorKind};
use holm_engine::{AccountId, KeyId};

use super::view::time;
use super::{AccountChange, AccountView, KeyView, MadeKey, NewAccount, NewKey, PaymentView};
use crate::exit::Failure;
use crate::output;
use crate::settings::{RemoteSettings, money};

const MINUTE: u64 = 60;

/// A service, and the names under which the user has given its URL and key.
pub struct Service {
    pub(super) rest: Rest,
    url_from: &'static str,
    key_from: &'static str,
}

impl Service {
    /// Makes no connection yet.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn new(settings: &RemoteSettings) -> Result<Self, Failure> {
        let client = Client::new(settings.options.clone());
        let client = client.map_err(|error| Failure::new(error.to_string()))?;
        let url = client.url();
        if !url.is_tls() && !url.is_loopback() {
            let origin = url.origin();
            output::stderr(
                format!("warning: keys travel to {origin} unencrypted; use https://\n").as_bytes(),
            );
        }
        let (url_from, key_from) = (settings.url_from, settings.key_from);
        Ok(Self { rest: Rest::new(client), url_from, key_from })
    }

    pub(super) async fn account_create(&self, new: NewAccount) -> Result<AccountView, Failure> {
        let max_lifetime_minutes = new.max_lifetime.map(minutes).transpose()?;
        let NewAccount { name, max_sandboxes, network, .. } = new;
        let network = network.map(|network| network.to_json());
        let request = rest::NewAccount { name, max_sandboxes, max_lifetime_minutes, network };
        let currency = self.currency().await?;
        let account = self.rest.account_create(&request).await;
        Ok(AccountView::of_service(account.map_err(|said| self.failure(said))?, &currency))
    }

    pub(super) async fn account_change(
        &self,
        id: AccountId,
        change: AccountChange,
    ) -> Result<AccountView, Failure> {
        let mut fields = rest::AccountChange::new();
        if let Some(count) = change.max_sandboxes {
            fields.insert("max_sandboxes".to_owned(), count.into());
        }
        if let Some(lifetime) = change.max_lifetime {
            let minutes = lifetime.map(minutes).transpose()?;
            fields.insert("max_lifetime_minutes".to_owned(), minutes.into());
        }
        if let Some(network) = change.network {
            let network = network.map(|network| network.to_json());
            fields.insert("network".to_owned(), network.into());
        }
        let currency = self.currency().await?;
        let changed = self.rest.account_change(&id.to_string(), fields).await;
        changed.map_err(|said| self.failure(said))?;
        let account = self.rest.account_get(&id.to_string()).await;
        Ok(AccountView::of_service(account.map_err(|said| self.failure(said))?, &currency))
    }

    pub(super) async fn account_list(&self) -> Result<Vec<AccountView>, Failure> {
        let accounts = self.rest.account_list().await.map_err(|said| self.failure(said))?;
        let currency = self.currency().await?;
        let mut views = Vec::new();
        for account in accounts {
            let account = self.rest.account_get(&account.id).await;
            let account = account.map_err(|said| self.failure(said))?;
            views.push(AccountView::of_service(account, &currency));
        }
        Ok(views)
    }

    pub(super) async fn account_names(&self) -> Result<Vec<(AccountId, String)>, Failure> {
        let accounts = self.rest.account_list().await.map_err(|said| self.failure(said))?;
        let named = |account: rest::Account| Some((account.id.parse().ok()?, account.name));
        Ok(accounts.into_iter().filter_map(named).collect())
    }

    pub(super) async fn account_topup(
        &self,
        account: AccountId,
        amount: i64,
        reference: Option<String>,
    ) -> Result<PaymentView, Failure> {
        let topup = rest::Topup { amount: money::in_units(amount), reference };
        let currency = self.currency().await?;
        let entry = self.rest.account_topup(&account.to_string(), &topup).await;
        Ok(PaymentView::of_service(entry.map_err(|said| self.failure(said))?, currency))
    }

    pub(super) async fn key_create(
        &self,
        account: AccountId,
        new: NewKey,
    ) -> Result<MadeKey, Failure> {
        let request = rest::NewKey {
            account_id: account.to_string(),
            name: new.name,
            scopes: new.scopes.iter().map(ToString::to_string).collect(),
            expires_at: new.expires_at.map(time),
        };
        let made = self.rest.key_create(&request).await.map_err(|said| self.failure(said))?;
        Ok(MadeKey { key: made.secret, view: made.key.into() })
    }

    pub(super) async fn key_list(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<KeyView>, Failure> {
        let account = account.map(|id| id.to_string());
        let keys = self.rest.key_list(account.as_deref()).await;
        let keys = keys.map_err(|said| self.failure(said))?;
        Ok(keys.into_iter().map(KeyView::from).collect())
    }

    pub(super) async fn key_revoke(&self, key: KeyId) -> Result<KeyView, Failure> {
        let revoked = self.rest.key_revoke(&key.to_string()).await;
        Ok(revoked.map_err(|said| self.failure(said))?.into())
    }

    /// Asked before anything is changed, so that a change is never followed by an error.
    async fn currency(&self) -> Result<String, Failure> {
        self.rest.currency().await.map_err(|said| self.failure(said))
    }

    pub(super) fn failure(&self, said: Said) -> Failure {
        match said {
            Said::Http(error) => self.broken(&error),
            Said::Refused { status, kind, message } => self.refused(status, &kind, message),
        }
    }

    fn refused(&self, status: u16, kind: &str, message: String) -> Failure {
        let (url, key) = (self.url_from, self.key_from);
        let origin = self.rest.client().url().origin();
        match (status, kind) {
            (300..=399, _) => {
                Failure::new(format!("{origin} leads to another address (status {status})"))
                    .hint(format!("set {url} to the address where the service is"))
            }
            (_, "") => Failure::new(format!(
                "there is no holm service at {origin} (it answers status {status})"
            ))
            .hint(format!("check {url}")),
            (401, _) => Failure::new(format!("{key}: {message}")).hint(MAKE_ONE),
            (403, _) => Failure::new(format!("{key}: {message}")).hint(MAKE_ONE),
            (_, "invalid_request") => Failure::usage(message).hint("see `holm --help`"),
            _ => Failure::new(message),
        }
    }

    fn broken(&self, error: &Error) -> Failure {
        let failure = Failure::new(error.message.clone());
        match error.kind {
            ErrorKind::Unreachable | ErrorKind::Proxy => failure.hint(format!(
                "check that the service runs and that {} is its URL; `--data-dir` works on its \
                 database without it",
                self.url_from
            )),
            ErrorKind::Tls => {
                failure.hint("a service with certificates of its own needs HOLM_CA_FILE")
            }
            ErrorKind::Protocol => failure.hint(format!("check {}", self.url_from)),
            ErrorKind::Broken | ErrorKind::Silent | ErrorKind::TooLong | ErrorKind::Forbidden => {
                failure
                    .hint("what was to be changed may be changed or not: look before you repeat it")
            }
        }
    }
}

const MAKE_ONE: &str = "work on the service's database, with --data-dir DIR; there \
                        `holm key create ACCOUNT --scopes admin` makes a key that may";

/// The service counts in minutes.
fn minutes(lifetime: Duration) -> Result<u64, Failure> {
    match lifetime.as_secs() {
        seconds if seconds % MINUTE == 0 && lifetime.subsec_nanos() == 0 => Ok(seconds / MINUTE),
        _ => Err(Failure::usage("--max-lifetime must be whole minutes for a service that runs")),
    }
}
