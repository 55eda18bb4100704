//! Secrets of accounts: credentials that sandboxes can use and not read. A sandbox has a text that
//! stands for one; its gate puts the value in where the secret is bound to (`inject`).
//!
//! No call answers a value, and no log, error or audit event has one. What is no name is not repeated
//! either: it may be a value that somebody put in the name's place.

mod inject;
mod pick;

pub(crate) use inject::Applied;
pub(crate) use pick::Picked;

use holm_gate::{Injection, Rule};
use holm_store::{KeyScope, Sealer, Secret, SecretText};
use jiff::Timestamp;
use serde_json::json;

use crate::text::shorten;
use crate::{Engine, Error, ErrorKind, env};

/// Secrets of one account at most.
const MAX: u32 = 100;
/// Most characters of a name.
const MAX_NAME: usize = 64;

/// Request of `secret_put`.
#[derive(Debug, Clone)]
pub struct NewSecret {
    /// What it is called, also the variable that stands for it inside: a letter or `_`, then
    /// letters, digits and `_`, 64 at most.
    pub name: String,
    /// Its value.
    pub value: SecretText,
    /// Where it may be sent: names and `*.names`, each also with a port.
    pub hosts: Vec<String>,
    /// In which headers; the usual ones where there are none.
    pub headers: Vec<String>,
    /// Also where it is not encrypted on its way.
    pub allow_plaintext: bool,
}

/// A secret as callers see it: without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretView {
    /// Its name.
    pub name: String,
    /// Where it may be sent.
    pub hosts: Vec<String>,
    /// In which headers; the usual ones where there are none.
    pub headers: Vec<String>,
    /// Also where it is not encrypted on its way.
    pub allow_plaintext: bool,
    /// When one of that name was put first.
    pub created_at: Timestamp,
    /// When it was put last.
    pub updated_at: Timestamp,
}

impl From<Secret> for SecretView {
    fn from(secret: Secret) -> Self {
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

/// Whether a secret may have this name. What may not be one may be a value: it is not to be repeated, in
/// no answer and in no log.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && env::is_identifier(name)
}

/// Refuses what is no name of a secret.
fn check_name(name: &str) -> Result<(), Error> {
    if is_secret_name(name) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "this is no name of a secret: one has 1 to {MAX_NAME} letters a-z and A-Z, digits and `_`, \
         and does not begin with a digit"
    ))
    .suggest("Check that name and value are not in each other's place."))
}

/// What of a secret goes to a gate.
fn injection(secret: &Secret, value: &SecretText, placeholder: String) -> Result<Injection, Error> {
    let hosts = secret.hosts.iter().map(|host| host.parse::<Rule>()).collect::<Result<Vec<_>, _>>();
    let hosts = hosts.map_err(|error| Error::invalid(error.to_string()))?;
    let value = holm_gate::Secret::new(value.reveal().as_bytes());
    let made = Injection::new(hosts, placeholder, value, &secret.headers, secret.allow_plaintext);
    made.map_err(|error| Error::invalid(error.to_string()))
}

impl Engine {
    fn sealer(&self) -> Result<&Sealer, Error> {
        self.inner.settings.sealer.as_ref().ok_or_else(|| {
            Error::invalid("this holm keeps no secrets")
                .suggest("Start it with `holm serve`, whose data directory holds their key.")
        })
    }

    /// Puts a secret of the caller's account, in the place of the one of that name. Sandboxes that
    /// may use it have the new one within seconds. True when there was none of that name.
    ///
    /// # Errors
    /// `invalid_argument`, also when the account has as many as it may; `forbidden`.
    pub async fn secret_put(&self, new: NewSecret) -> Result<(SecretView, bool), Error> {
        let name = is_secret_name(&new.name).then(|| new.name.clone());
        let detail = json!({
            "hosts": shorten(&new.hosts.join(" "), 1000),
            "allow_plaintext": new.allow_plaintext,
        });
        let put = self.put(new).await;
        self.audit_result("secret.put", name, &put, detail);
        put
    }

    async fn put(&self, new: NewSecret) -> Result<(SecretView, bool), Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        check_name(&new.name)?;
        let sealer = self.sealer()?;
        self.start().await?;
        let now = Timestamp::now();
        let mut secret = Secret {
            account_id: self.caller.account,
            name: new.name,
            sealed: Vec::new(),
            hosts: new.hosts,
            headers: new.headers.iter().map(|header| header.to_ascii_lowercase()).collect(),
            allow_plaintext: new.allow_plaintext,
            created_at: now,
            updated_at: now,
        };
        // What a gate would not take is refused here.
        injection(&secret, &new.value, pick::placeholder()?)?;
        sealer.seal(&mut secret, &new.value)?;
        let added = self.inner.store.secret_put(secret.clone(), MAX).await?;
        if !added {
            let all = self.inner.store.secret_list(self.caller.account).await?;
            let found = all.into_iter().find(|other| other.name == secret.name);
            secret.created_at = found.map_or(secret.created_at, |found| found.created_at);
        }
        self.secrets_refresh(self.caller.account).await;
        Ok((secret.into(), added))
    }

    /// The secrets of the caller's account by name, without their values.
    ///
    /// # Errors
    /// `forbidden`.
    pub async fn secret_list(&self) -> Result<Vec<SecretView>, Error> {
        self.caller.needs(KeyScope::Read)?;
        let all = self.inner.store.secret_list(self.caller.account).await?;
        Ok(all.into_iter().map(SecretView::from).collect())
    }

    /// Removes one. Sandboxes that might use it cannot any more, within seconds.
    ///
    /// # Errors
    /// `not_found`, `forbidden`.
    pub async fn secret_delete(&self, name: &str) -> Result<(), Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        check_name(name)?;
        let deleted = self.inner.store.secret_delete(self.caller.account, name.to_owned()).await;
        let deleted = deleted.map_err(Error::from).and_then(|there| match there {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, format!("there is no secret {name}"))
                .suggest("List the secrets to see their names.")),
        });
        if !deleted.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result("secret.delete", Some(name.to_owned()), &deleted, json!({}));
        }
        self.secrets_refresh(self.caller.account).await;
        deleted
    }

    /// Seals anew what an older key has sealed, so that the older one can be taken out of its
    /// file. What no key opens stays as it is.
    pub(crate) async fn secrets_reseal(&self) -> Result<(), Error> {
        let Ok(sealer) = self.sealer() else { return Ok(()) };
        for old in self.inner.store.secret_all().await? {
            if sealer.is_current(&old) {
                continue;
            }
            let (account, name) = (old.account_id, old.name.clone());
            let mut new = old.clone();
            let sealed = sealer.open(&old).and_then(|value| sealer.seal(&mut new, &value));
            if let Err(error) = sealed {
                tracing::error!(%account, name, internal = error.internal(), "a secret is lost");
                continue;
            }
            if self.inner.store.secret_reseal(old, new.sealed).await? {
                tracing::info!(%account, name, "sealed with the key in use");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_variables() {
        for good in ["A", "_", "GITHUB_TOKEN", "a9", &"X".repeat(64)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "9A", "A-B", "A B", "A=B", "Ä", "A\0", &"X".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
