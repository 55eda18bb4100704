//! Certificates from an authority by ACME (RFC 8555), for a name and everything below it: that is
//! proved by a record in DNS, which somebody else puts there.
//!
//! | module | what it is |
//! | --- | --- |
//! | `http` | the library's requests by our own client |
//! | [`validity`] | from when to when a certificate holds |

mod http;
pub mod validity;

use std::pin::Pin;
use std::time::Duration;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Identifier, NewAccount,
    NewOrder, OrderStatus, RetryPolicy,
};

use self::http::Http;
use crate::proxy::Proxies;
use crate::tls::Roots;
use crate::url::Url;

/// How long an authority may take to look, and to make a certificate.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(300));

/// Puts records into DNS.
pub trait Records: Send + Sync {
    /// Puts a text record there, and resolves when the world can see it.
    fn present<'a>(&'a self, name: &'a str, value: &'a str) -> Working<'a>;
    /// Takes it away.
    fn cleanup<'a>(&'a self, name: &'a str, value: &'a str) -> Working<'a>;
}

/// What comes of it.
pub type Working<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// An authority, and who asks it.
#[derive(Debug, Clone)]
pub struct Authority {
    /// The address of its directory.
    pub directory: Url,
    /// Where it may write to, as `mailto:…`.
    pub contact: Option<String>,
    /// Whom to trust.
    pub roots: Roots,
    /// Proxies to go through.
    pub proxies: Proxies,
}

/// A certificate that was made.
#[derive(Clone)]
pub struct Issued {
    /// Its key (PEM).
    pub key: String,
    /// It, and what leads from it to the authority (PEM).
    pub chain: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Issued(…)")
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AcmeError {
    /// The authority refuses, or was not reached.
    #[error("the authority: {0}")]
    Authority(#[from] instant_acme::Error),
    /// What it offers is not what we need.
    #[error("the authority {0}")]
    Unfit(&'static str),
    /// The record is not in DNS.
    #[error("the hook: {0}")]
    Record(String),
    /// What was kept of the account cannot be read.
    #[error("the account that was kept cannot be read: {0}")]
    Kept(#[from] serde_json::Error),
}

/// An account at an authority.
pub struct Registered(Account);

impl Authority {
    /// Whether an address is one that may be asked: by https, or of this machine.
    #[must_use]
    pub fn may_be_at(url: &Url) -> bool {
        http::is_safe(url)
    }

    fn text(&self) -> String {
        format!("{}{}", self.directory.origin(), self.directory.own_path())
    }

    /// The account that was kept, or a new one and what to keep of it. That is a secret.
    ///
    /// # Errors
    /// When the authority was not reached, or gives none.
    pub async fn account(
        &self,
        kept: Option<&str>,
    ) -> Result<(Registered, Option<String>), AcmeError> {
        let http = Box::new(Http::new(self.roots.clone(), self.proxies.clone()));
        let builder = Account::builder_with_http(http);
        if let Some(kept) = kept {
            let credentials: AccountCredentials = serde_json::from_str(kept)?;
            return Ok((Registered(builder.from_credentials(credentials).await?), None));
        }
        let contact: Vec<&str> = self.contact.as_deref().into_iter().collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = builder.create(&new, self.text(), None).await?;
        Ok((Registered(account), Some(serde_json::to_string(&credentials)?)))
    }
}

impl Registered {
    /// Gets a certificate for all names right below `domain`.
    ///
    /// # Errors
    /// When the record cannot be put, or the authority gives none.
    pub async fn issue(&self, domain: &str, records: &dyn Records) -> Result<Issued, AcmeError> {
        let names = [Identifier::Dns(format!("*.{domain}"))];
        let mut order = self.0.new_order(&NewOrder::new(&names)).await?;
        let name = format!("_acme-challenge.{domain}");
        let mut put = Vec::new();
        let proved = prove(&mut order, &name, records, &mut put).await;
        // Whatever became of it, no record stays.
        for value in put {
            if let Err(error) = records.cleanup(&name, &value).await {
                tracing::warn!(%name, %error, "a record stays in DNS");
            }
        }
        proved?;
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&PATIENCE).await?;
        Ok(Issued { key, chain })
    }
}

/// Shows that the names are ours. In `put` are the records that have to go again.
async fn prove(
    order: &mut instant_acme::Order,
    name: &str,
    records: &dyn Records,
    put: &mut Vec<String>,
) -> Result<(), AcmeError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            _ => return Err(AcmeError::Unfit("has given up this order")),
        }
        let challenge = authorization.challenge(ChallengeType::Dns01);
        let mut challenge = challenge.ok_or(AcmeError::Unfit("offers no proof by DNS"))?;
        let value = challenge.key_authorization().dns_value();
        put.push(value.clone());
        records.present(name, &value).await.map_err(AcmeError::Record)?;
        challenge.set_ready().await?;
    }
    match order.poll_ready(&PATIENCE).await? {
        OrderStatus::Ready => Ok(()),
        _ => Err(AcmeError::Unfit("does not find the record in DNS")),
    }
}
