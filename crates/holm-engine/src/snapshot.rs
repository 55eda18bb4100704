//! Snapshots: what a sandbox has written, kept as a template that its account alone has. Asked for by its
//! owner's id, so that nobody sees another's.

use std::sync::Arc;
use std::time::Duration;

use holm_store::KeyScope;
use serde_json::json;
use tokio::time::timeout;

use crate::copy::NewSnapshot;
use crate::sandbox::Sandbox;
use crate::shares::{Places, Shares};
use crate::template::Template;
use crate::text::shorten;
use crate::{
    AccountId, Engine, Error, ErrorKind, HeldTemplate, SandboxId, SandboxState, SnapshotView,
    TemplateLibrary, copy, driver_error,
};

/// How many sandboxes are copied at a time, on this machine; of one account, one.
const AT_ONCE: u32 = 2;
/// How long a copy waits for its turn.
const TURN: Duration = Duration::from_secs(30);

/// Who copies, and who waits.
pub(crate) type Turns = Shares<AccountId>;

pub(crate) fn turns() -> Turns {
    Shares::new(AT_ONCE, 1)
}

impl Engine {
    /// Keeps the files of a sandbox that runs as a snapshot, from which creates of the same account make
    /// sandboxes by its name. The sandbox stands still for as long as its files are read, and goes on.
    /// Dropping the future leaves nothing.
    ///
    /// # Errors
    /// `conflict` where the name is taken; `quota_exceeded` where the account has as many, or as many
    /// bytes, as it may; `invalid_argument` for a name that no template can have, or a file that cannot be
    /// kept; `capacity` when the host's disk is full; `unavailable` when others are being made for too
    /// long; `not_found`, `sandbox_gone`.
    pub async fn snapshot_create(&self, id: &SandboxId, name: &str) -> Result<SnapshotView, Error> {
        let result = self.make_snapshot(id, name).await;
        let detail = json!({"snapshot": shorten(name, 63)});
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result("snapshot.create", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn make_snapshot(&self, id: &SandboxId, name: &str) -> Result<SnapshotView, Error> {
        let sandbox = self.usable(id).await?;
        if name.starts_with('.') || name.is_empty() {
            return Err(Error::invalid(
                "name must begin with a letter or a digit: a-z, 0-9, `.`, `_` and `-`",
            ));
        }
        let settings = &self.inner.settings;
        let taken = settings.templates.contains_key(name)
            || self
                .library(TemplateLibrary::list)
                .await?
                .is_some_and(|all| all.iter().any(|template| template.name == name));
        if taken {
            return Err(exists(name, "a template"));
        }
        let turn = self.turn().await?;
        let had = self.own_snapshots().await?;
        if had.iter().any(|one| one.name == name) {
            return Err(exists(name, "a snapshot"));
        }
        if had.len() >= settings.max_snapshots {
            let text = format!("this account may have {} snapshots", settings.max_snapshots);
            return Err(no_more(text));
        }
        let bytes: u64 = had.iter().filter_map(|one| one.written).sum();
        let left = settings.max_snapshot_bytes.saturating_sub(bytes);
        let made = self.copy(&sandbox, name.to_owned(), left, turn).await;
        let made = made.map_err(|error| match error.kind {
            ErrorKind::TooLarge => no_more(format!(
                "the sandbox's files have more than the {left} bytes that this account has left \
                 for snapshots"
            )),
            _ => error,
        })?;
        made.map(|made| view(&made.template)).ok_or_else(|| exists(name, "a snapshot"))
    }

    /// The account's snapshots, by name.
    ///
    /// # Errors
    /// `forbidden` without a scope to read; `internal` when they cannot be read.
    pub async fn snapshot_list(&self) -> Result<Vec<SnapshotView>, Error> {
        self.caller.needs(KeyScope::Read)?;
        Ok(self.own_snapshots().await?.iter().map(view).collect())
    }

    /// Removes a snapshot, and gives the space back that nothing else needs.
    ///
    /// # Errors
    /// `not_found`, also for somebody else's; `conflict` while sandboxes made from it run.
    pub async fn snapshot_delete(&self, name: &str) -> Result<(), Error> {
        self.caller.needs(KeyScope::Sandboxes)?;
        let result = self.remove_snapshot(name).await;
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result(
                "snapshot.delete",
                None,
                &result,
                json!({"snapshot": shorten(name, 63)}),
            );
        }
        result
    }

    async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let (owner, wanted) = (self.caller.account.to_string(), name.to_owned());
        // What is not listed is nobody's to remove.
        let removed = match name.starts_with('.') {
            true => None,
            false => {
                let ask =
                    move |library: &dyn TemplateLibrary| library.snapshot_remove(&owner, &wanted);
                self.library(ask).await?
            }
        };
        match removed {
            Some(true) => Ok(()),
            _ => {
                let text = format!("there is no snapshot {:?}", shorten(name, 63));
                let error = Error::new(ErrorKind::NotFound, text);
                Err(error.suggest("get_service_info lists what there is, snapshots included."))
            }
        }
    }

    pub(crate) async fn turn(&self) -> Result<Places, Error> {
        let turn = self.inner.turns.take(self.caller.account, 1, TURN).await;
        turn.ok_or_else(|| {
            let text = "other sandboxes are being copied, and that takes too long to wait for";
            Error::new(ErrorKind::Unavailable, text)
        })
    }

    async fn own_snapshots(&self) -> Result<Vec<Template>, Error> {
        let owner = self.caller.account.to_string();
        let all = self.library(move |library| library.snapshots(&owner)).await?;
        Ok(all.unwrap_or_default())
    }

    pub(crate) async fn hold_snapshot(&self, name: &str) -> Result<Option<HeldTemplate>, Error> {
        self.hold_snapshot_of(self.caller.account, name).await
    }

    pub(crate) async fn hold_snapshot_of(
        &self,
        account: AccountId,
        name: &str,
    ) -> Result<Option<HeldTemplate>, Error> {
        let (owner, name) = (account.to_string(), name.to_owned());
        let held = self.library(move |library| library.snapshot_hold(&owner, &name)).await?;
        Ok(held.flatten())
    }

    /// Copies what a sandbox has written into the library. None where the name is taken.
    pub(crate) async fn copy(
        &self,
        sandbox: &Arc<Sandbox>,
        name: String,
        most_bytes: u64,
        turn: Places,
    ) -> Result<Option<HeldTemplate>, Error> {
        self.refuse_when_closing()?;
        let machine = sandbox.machine().ok_or_else(|| sandbox.not_ready())?;
        if self.inner.settings.library.is_none() {
            let text = "there is no library of templates here, in which a copy could be kept";
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        let snapshot = NewSnapshot {
            owner: self.caller.account.to_string(),
            name,
            standing: sandbox.standing(),
            source: format!("snapshot of {}", sandbox.id),
            most_bytes,
        };
        // A pause comes before or after.
        let decision = sandbox.decision.lock().await;
        let still = sandbox.stand_still();
        let stream = machine.pack().await.map_err(driver_error::from_driver);
        drop(decision);
        let stream = stream.map_err(|error| gone_or(sandbox, error))?;
        let (written, wanted) = copy::begin(stream);
        let swept = (!self.inner.driver.outlived()).then(|| snapshot.owner.clone());
        let copied = self.library(move |library| {
            // Also where nobody waits any more: until then nobody else has a turn.
            let _turn = (turn, still);
            if let Some(owner) = swept {
                // Of processes that ended without an end; what others have is held.
                library.sweep(Some(&owner))?;
            }
            library.snapshot_make(snapshot, written)
        });
        let copied = copied.await.map_err(|error| gone_or(sandbox, error))?;
        drop(wanted);
        Ok(copied.flatten())
    }

    /// Removes what the dead have left in the library: what was half made, and copies that no sandbox
    /// stands on. Only for whoever alone has the sandboxes of its data directory.
    pub(crate) fn sweep_library(&self) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.library(|library| library.sweep(None)).await {
                let internal = error.internal.unwrap_or(error.public);
                tracing::warn!(internal, "the library of templates could not be swept");
            }
        });
    }
}

/// How long a sandbox may take to go on after a copy before it is helped.
const GO_ON: Duration = Duration::from_secs(10);

/// Held while a sandbox stands still for a copy, and until it goes on again.
pub(crate) struct Still {
    sandbox: Arc<Sandbox>,
    copies: Option<Arc<()>>,
    runtime: tokio::runtime::Handle,
}

impl Still {
    /// `copies` counts them. To be called within the runtime.
    pub fn new(sandbox: Arc<Sandbox>, copies: Arc<()>) -> Self {
        Self { sandbox, copies: Some(copies), runtime: tokio::runtime::Handle::current() }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let (sandbox, copies) = (Arc::clone(&self.sandbox), self.copies.take());
        self.runtime.spawn(async move {
            // Whoever answers goes on. Without whoever stopped it nobody else would see to that.
            if sandbox.state() == SandboxState::Running
                && let (Ok(guest), Some(machine)) = (sandbox.guest(), sandbox.machine())
                && timeout(GO_ON, guest.stat("/", "")).await.is_err()
            {
                let _decision = sandbox.decision.lock().await;
                if sandbox.state() == SandboxState::Running {
                    // What fails here is seen by the next call.
                    let _ = machine.thaw().await;
                }
            }
            drop(copies);
        });
    }
}

/// A sandbox that ended meanwhile explains whatever went wrong.
fn gone_or(sandbox: &Sandbox, error: Error) -> Error {
    match sandbox.ended_now() {
        Some(ended) => Error::gone(&sandbox.id, ended),
        None => error,
    }
}

fn exists(name: &str, what: &str) -> Error {
    let text = format!("there is {what} {name:?} already");
    Error::new(ErrorKind::Conflict, text).suggest("Choose another name, or delete it first.")
}

fn no_more(text: String) -> Error {
    Error::new(ErrorKind::QuotaExceeded, text)
        .suggest("Delete a snapshot that is no longer needed (delete_snapshot).")
}

fn view(template: &Template) -> SnapshotView {
    SnapshotView {
        name: template.name.clone(),
        source: template.source.clone(),
        bytes: template.written.unwrap_or(template.bytes),
        total_bytes: template.bytes,
        created_at: template.created_at,
    }
}
