//! Snapshots: what a sandbox has written, kept as a template that its account alone has; and forks, new
//! sandboxes with the files of one that runs. Processes are not copied.
//!
//! A snapshot belongs to an account and is asked for by its owner's id, so that nobody sees another's.
//! What forks stand on is one too, under a name that no caller can give; it goes with the last of them.

use std::any::Any;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holm_runtime::{DriverError, LayerStream};
use holm_store::KeyScope;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::sandbox::Sandbox;
use crate::shares::{Places, Shares};
use crate::template::{Base, Standing, Template};
use crate::text::shorten;
use crate::{
    AccountId, CreateSandbox, Destroyed, EndReason, Engine, Error, ErrorKind, ForkSandbox,
    HeldTemplate, SandboxId, SandboxView, SnapshotView, TemplateLibrary, driver_error, network,
};

/// Most forks in one call.
pub const MAX_FORKS: u32 = 16;
/// How many sandboxes are copied at a time, on this machine; of one account, one.
const AT_ONCE: u32 = 2;
/// How long a copy waits for its turn.
const TURN: Duration = Duration::from_secs(30);
/// How names of what forks stand on begin. No name of a template does.
const HIDDEN: &str = ".fork-";

/// Who copies, and who waits.
pub(crate) type Turns = Shares<AccountId>;

pub(crate) fn turns() -> Turns {
    Shares::new(AT_ONCE, 1)
}

/// What a library is to make a snapshot of.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// Whose it is.
    pub owner: String,
    /// Its name; one with a dot in front is not listed.
    pub name: String,
    /// What the sandbox was made from.
    pub standing: Standing,
    /// From where it is, for people.
    pub source: String,
    /// Bytes that it may have.
    pub most_bytes: u64,
}

/// What a sandbox has written, while it is copied.
#[derive(Debug)]
pub struct Written {
    stream: LayerStream,
    given_up: Arc<AtomicBool>,
}

impl Written {
    /// After the last byte: whether it was the last one, and somebody still wants it.
    ///
    /// # Errors
    /// When it is not whole, or nobody waits any more.
    pub fn finish(self) -> Result<(), DriverError> {
        self.stream.finish().map(drop)
    }

    /// Whether nobody waits for it any more.
    #[must_use]
    pub fn watch(&self) -> GivenUp {
        GivenUp(Arc::clone(&self.given_up))
    }
}

impl Read for Written {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.given_up.load(Ordering::Acquire) {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        self.stream.read(bytes)
    }
}

/// Says whether a copy is still wanted.
#[derive(Debug, Clone)]
pub struct GivenUp(Arc<AtomicBool>);

impl GivenUp {
    /// True once nobody waits.
    #[must_use]
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Gives a copy up when it is dropped.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
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

    /// Makes new sandboxes with the files of one that runs, all of one moment. Processes are not copied, nor
    /// are variables of its create; size, network, secrets, labels and lifetime are as it has them, unless
    /// the request says otherwise. All of them, or none.
    ///
    /// # Errors
    /// As for [`Self::snapshot_create`] and [`Self::sandbox_create`].
    pub async fn sandbox_fork(
        &self,
        id: &SandboxId,
        request: ForkSandbox,
    ) -> Result<Vec<SandboxView>, Error> {
        let count = request.count;
        let result = self.fork(id, request).await;
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            let made = result.iter().flatten().map(|view| view.id.to_string());
            let detail = json!({"count": count, "sandboxes": made.collect::<Vec<_>>()});
            self.audit_result("sandbox.fork", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn fork(&self, id: &SandboxId, request: ForkSandbox) -> Result<Vec<SandboxView>, Error> {
        if request.count == 0 || request.count > MAX_FORKS {
            return Err(Error::invalid(format!("count must be from 1 to {MAX_FORKS}")));
        }
        let sandbox = self.usable(id).await?;
        let turn = self.turn().await?;
        let hidden = format!("{HIDDEN}{}", SandboxId::random()?.digits());
        let disk = sandbox.live().record.given.disk_bytes();
        // What it has written its own disk has bounded already; what has holes there has them here.
        let most = disk.saturating_mul(2).saturating_add(1 << 30);
        // From here on whoever holds it last removes it.
        let held = self.copy(&sandbox, hidden.clone(), most, turn).await?;
        let forked = self.make_forks(&sandbox, request, &hidden).await;
        drop(held);
        self.forget_copy(self.caller.account, hidden);
        forked
    }

    async fn make_forks(
        &self,
        sandbox: &Arc<Sandbox>,
        request: ForkSandbox,
        hidden: &str,
    ) -> Result<Vec<SandboxView>, Error> {
        let record = sandbox.live().record;
        let wanted = CreateSandbox {
            size: Some(record.size.as_str().to_owned()),
            name: request.name.or(record.name),
            timeout: request.timeout.or(Some(record.lifetime)),
            env: request.env,
            metadata: record.metadata,
            network: Some(request.network.unwrap_or_else(|| network::recorded(&record.network))),
            secrets: record.secrets.into_keys().collect(),
            workdir: Some(sandbox.workdir.clone()),
            ..CreateSandbox::default()
        };
        let mut made = Forks { engine: self, views: Vec::new() };
        for _ in 0..request.count {
            let one = async {
                let held = self.hold_snapshot(hidden).await?;
                let held = held.ok_or_else(|| Error::internal("fork", &"a copy is gone"))?;
                let base = Base::fork(record.template.clone(), hidden.to_owned(), held);
                self.create_on(wanted.clone(), base).await
            };
            match one.await {
                Ok(view) => made.views.push(view),
                Err(error) => {
                    for end in made.take_back() {
                        // What it could not remove the sweep removes.
                        let _ = end.await;
                    }
                    return Err(error);
                }
            }
        }
        Ok(std::mem::take(&mut made.views))
    }

    async fn turn(&self) -> Result<Places, Error> {
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
    async fn copy(
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
        let given_up = Arc::new(AtomicBool::new(false));
        let wanted = Wanted(Arc::clone(&given_up));
        let still = sandbox.stand_still();
        let stream = machine.pack().await.map_err(driver_error::from_driver);
        let stream = stream.map_err(|error| gone_or(sandbox, error))?;
        let written = Written { stream, given_up };
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

    /// Removes what forks stood on, unless others still do.
    pub(crate) fn forget_copy(&self, account: AccountId, name: String) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            let owner = account.to_string();
            let ask = move |library: &dyn TemplateLibrary| library.snapshot_remove(&owner, &name);
            match engine.library(ask).await {
                Ok(_) => {}
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) => {
                    let internal = error.internal.unwrap_or(error.public);
                    tracing::error!(internal, "what forks stood on is not removed");
                }
            }
        });
    }

    /// Nothing of the sandbox is left: what it stood on may go as well.
    pub(crate) fn let_go(&self, sandbox: &Sandbox) {
        sandbox.let_go();
        if let Some(name) = sandbox.standing().copy {
            self.forget_copy(sandbox.account, name);
        }
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

/// Forks that nobody has yet: without all of them there is none, also where nobody waits any more.
struct Forks<'a> {
    engine: &'a Engine,
    views: Vec<SandboxView>,
}

impl Forks<'_> {
    fn take_back(&mut self) -> Vec<JoinHandle<Result<Destroyed, Error>>> {
        let views = std::mem::take(&mut self.views);
        let made = views.iter().filter_map(|view| self.engine.inner.registry.get(&view.id));
        made.map(|made| self.engine.end_in_background(made, EndReason::Destroyed)).collect()
    }
}

impl Drop for Forks<'_> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

/// Held while a sandbox stands still.
pub(crate) type Still = Box<dyn Any + Send>;

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
