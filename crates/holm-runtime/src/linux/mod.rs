//! The Linux driver: the owner's side of a launcher.

mod child;
mod line;
mod lock;
mod machine;
mod owned;
mod pending;
mod shared;

use std::fs::File;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::channel::Channel;
use crate::driver::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, LayerState, Machine, Pausing,
    SandboxSpec,
};
use crate::failure::{Attempt, Failure};
use crate::message::{Facts, Request};
use crate::options::{LinuxOptions, Settings};
pub(crate) use child::Child;
use machine::LinuxMachine;
use pending::PendingCreate;
use shared::Shared;

/// Sandboxes on this machine. Dropping it ends them all, without waiting, unless their lifetime is
/// [`Lifetime::Detached`](crate::Lifetime::Detached): then those that run go on.
#[derive(Debug)]
pub struct LinuxDriver {
    shared: Arc<Shared>,
    options: LinuxOptions,
    facts: Facts,
    /// What was seen at the first sandbox.
    enforcement: OnceLock<Enforcement>,
    /// What was found where no sandbox could be made to look at.
    doubts: Mutex<Vec<&'static Enforcement>>,
    /// Of a service: nobody else takes over what is ours.
    lock: Mutex<Option<File>>,
}

impl LinuxDriver {
    /// Starts the launcher and waits for it. May be called before or after an async runtime
    /// starts; the driver's futures need none of their own.
    ///
    /// # Errors
    /// When the launcher cannot be started or cannot work here.
    pub fn start(options: LinuxOptions) -> Result<Self, DriverError> {
        Self::launch(options)?.ready()
    }

    /// Starts the launcher. What else there is to set up can be done while it gets ready.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn launch(options: LinuxOptions) -> Result<Launching, DriverError> {
        let settings = options.settings();
        let lock = match settings.lifetime.outlives_owner() {
            true => Some(lock::take(&settings.data_dir)?),
            false => None,
        };
        let (channel, child) = spawn(&options, &Request::Start(Box::new(settings.clone())))?;
        Ok(Launching { channel, child, options, settings, lock })
    }

    /// Name of this instance, which its cgroups, sockets and files carry. Where sandboxes outlive the
    /// owner, another launcher has another one.
    #[must_use]
    pub fn instance(&self) -> String {
        self.shared.instance()
    }

    /// Resolves when the launcher is gone for good, so that no sandbox can be made or ended any more:
    /// an embedded engine's end with it, a service's go on, for the next one to take over.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.shared.clone();
        async move { shared.gone().await }
    }

    /// Demanded layers that this host cannot give, as far as that shows before a sandbox is made.
    #[must_use]
    pub fn lacking(&self) -> Vec<LayerState> {
        let demanded = self.options.demanded.iter();
        let states = demanded.filter_map(|layer| crate::doctor::foreseen(*layer, &self.facts));
        states.filter(|state| !state.enforced).collect()
    }

    /// The launcher's process, for diagnosis.
    #[must_use]
    pub fn launcher_pid(&self) -> u32 {
        self.shared.launcher_pid()
    }
}

/// A launcher that is getting ready. Dropping it ends the launcher.
#[derive(Debug)]
pub struct Launching {
    channel: Channel,
    child: Child,
    options: LinuxOptions,
    settings: Settings,
    lock: Option<File>,
}

impl Launching {
    /// Waits until it is.
    ///
    /// # Errors
    /// When the launcher cannot work here.
    pub fn ready(self) -> Result<LinuxDriver, DriverError> {
        let Self { channel, child, options, settings, lock } = self;
        let (ready, keeper) = match settings.lifetime.outlives_launcher() {
            true => (line::kept(&channel)?, Some(channel)),
            false => (line::only(channel, child.id())?, None),
        };
        let facts = ready.facts.clone();
        let shared = Shared::start(ready, keeper, child, settings)?;
        Ok(LinuxDriver {
            shared,
            options,
            facts,
            enforcement: OnceLock::new(),
            doubts: Mutex::default(),
            lock: Mutex::new(lock),
        })
    }
}

impl Driver for LinuxDriver {
    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>> {
        Box::pin(async move {
            let (pending, answer) = PendingCreate::send(&self.shared, spec)?;
            let answer = answer.await;
            pending.complete();
            let (created, gate) = answer.map_err(|_| self.shared.launcher_gone())??;
            // While it is there: its jail is complete, and later ones may be gone when somebody asks.
            if self.enforcement.get().is_none()
                && let Some(seen) = crate::doctor::seen(&self.facts, &created)
            {
                let _ = self.enforcement.set(seen.demanding(&self.options.demanded));
            }
            let machine = LinuxMachine::new(self.shared.clone(), created, gate);
            Ok(Box::new(machine) as Box<dyn Machine>)
        })
    }

    fn dropped(&self, id: &str) -> BoxFuture<'_, Result<(), DriverError>> {
        let id = id.to_owned();
        // Behind the word that the dropped create has sent.
        Box::pin(async move { self.shared.destroyed(id).await })
    }

    fn enforcement(&self) -> &Enforcement {
        if let Some(known) = self.enforcement.get() {
            return known;
        }
        // None was made yet, so one is made to look at.
        let (found, is_sure) = crate::doctor::attempt(&self.options);
        let found = found.demanding(&self.options.demanded);
        if is_sure {
            return self.enforcement.get_or_init(|| found);
        }
        // What stopped it may pass, so the next one looks again. Whoever asked has a reference for as
        // long as this lives, so it is kept, once for each thing that can be wrong.
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = doubts.iter().copied().find(|doubt| **doubt == found) {
            return same;
        }
        let kept: &'static Enforcement = Box::leak(Box::new(found));
        doubts.push(kept);
        kept
    }

    fn known_enforcement(&self) -> Option<&Enforcement> {
        self.enforcement.get()
    }

    fn pausing(&self) -> Pausing {
        crate::doctor::pausing(&self.facts)
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A launcher that is gone has nothing left that the reader does not remove.
            if let Ok(answer) = self.shared.ask(|seq| Request::Shutdown { seq }) {
                let _ = answer.await;
            }
            self.leave().await;
        })
    }

    fn left_over(&self) -> Vec<String> {
        self.shared.left_over()
    }

    fn adopt(&self, id: &str) -> Option<Box<dyn Machine>> {
        let created = self.shared.adopt(id)?;
        Some(Box::new(LinuxMachine::new(self.shared.clone(), created, None)))
    }

    fn outlived(&self) -> bool {
        self.options.lifetime.outlives_owner()
    }

    fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.hang_up();
            self.shared.gone().await;
            // From now on the next one may have it.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        })
    }
}

impl Drop for LinuxDriver {
    fn drop(&mut self) {
        self.shared.hang_up();
    }
}

/// The error of every call once the launcher is gone for good.
fn launcher_gone(settings: &Settings) -> DriverError {
    let text = if settings.lifetime.outlives_owner() {
        "The launcher process has ended for good; holm must be started again. Sandboxes that run \
         go on."
    } else {
        "The launcher process has ended, and all sandboxes with it; holm must be started again."
    };
    Failure::of(DriverErrorKind::LauncherGone, text).into()
}

/// Starts a launcher and sends its first message.
pub(crate) fn spawn(options: &LinuxOptions, first: &Request) -> Result<(Channel, Child), Failure> {
    let (ours, theirs) = Channel::pair().tried("make the control socket")?;
    let child = Child::start(options, theirs)?;
    ours.send(first, &[]).tried("tell the launcher its settings")?;
    Ok((ours, child))
}

/// For the reader: what a launcher's death leaves is removed by its owner.
fn clean_up_after(settings: &Settings) {
    if let Err(failure) = crate::instance::sweep(settings) {
        tracing::error!(reason = %failure.internal, "could not remove what the launcher left");
    }
}
