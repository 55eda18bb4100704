//! Giving gates what they put into requests.

use std::sync::Arc;

use holm_gate::Injection;
use holm_store::{AccountId, Secret};
use jiff::Timestamp;

use crate::Engine;
use crate::sandbox::Sandbox;

/// Which secrets a gate has, as they were when it got them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied(Vec<(String, Timestamp)>);

impl Engine {
    /// Gives all sandboxes of an account that run their secrets, where something has changed.
    pub(crate) async fn secrets_refresh(&self, account: AccountId) {
        let mut sandboxes = self.inner.registry.of(account);
        sandboxes.retain(|sandbox| sandbox.state().is_live());
        self.secrets_give(account, &sandboxes).await;
    }

    /// The same for these, which are all of that account.
    pub(crate) async fn secrets_give(&self, account: AccountId, sandboxes: &[Arc<Sandbox>]) {
        if !sandboxes.iter().any(|sandbox| sandbox.has_secrets()) {
            return;
        }
        let secrets = match self.inner.store.secret_list(account).await {
            Ok(secrets) => secrets,
            Err(error) => {
                tracing::warn!(%account, internal = error.internal(), "secrets are not known");
                return;
            }
        };
        for sandbox in sandboxes.iter().filter(|sandbox| sandbox.has_secrets()) {
            self.secrets_apply(sandbox, &secrets);
        }
    }

    /// For a sandbox whose gate was attached just now.
    pub(crate) async fn secrets_attach(&self, sandbox: &Sandbox) {
        if !sandbox.has_secrets() {
            return;
        }
        match self.inner.store.secret_list(sandbox.account).await {
            Ok(secrets) => self.secrets_apply(sandbox, &secrets),
            Err(error) => {
                let internal = error.internal();
                tracing::warn!(id = %sandbox.id, internal, "it has no secrets for now");
            }
        }
    }

    /// Gives a sandbox's gate the values of its secrets, of all that `secrets` has. One that is
    /// gone, or does not open, is left out: what stands for it goes out as it is.
    fn secrets_apply(&self, sandbox: &Sandbox, secrets: &[Secret]) {
        let placeholders = sandbox.live().record.secrets;
        let wanted: Vec<(&Secret, &String)> = secrets
            .iter()
            .filter_map(|secret| Some((secret, placeholders.get(&secret.name)?)))
            .collect();
        let mark = Applied(
            wanted.iter().map(|(secret, _)| (secret.name.clone(), secret.updated_at)).collect(),
        );
        sandbox.link.inject(mark, || {
            wanted.iter().filter_map(|(secret, text)| self.open(secret, text)).collect()
        });
    }

    fn open(&self, secret: &Secret, placeholder: &str) -> Option<Injection> {
        let sealer = self.inner.settings.sealer.as_ref()?;
        let (account, name) = (secret.account_id, &secret.name);
        let value = match sealer.open(secret) {
            Ok(value) => value,
            Err(error) => {
                tracing::error!(%account, name, internal = error.internal(), "a secret is lost");
                return None;
            }
        };
        let made = super::injection(secret, &value, placeholder.to_owned());
        made.inspect_err(|error| tracing::error!(%account, name, %error, "a secret is none")).ok()
    }
}
