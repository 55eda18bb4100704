//! One live sandbox in memory: its record, its lease, its machine, and who waits for its end.

use std::any::Any;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use holm_gate::EgressPolicy;
use holm_runtime::{Machine, Usage};
use holm_store::{AccountId, Record};
use holm_wire::client::GuestClient;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::direct::Direct;
use crate::measure::Measured;
use crate::network::{self, Link};
use crate::port::Exposures;
use crate::snapshot::Still;
use crate::template::Standing;
use crate::uses::Uses;
use crate::{Ended, Error, ErrorKind, SandboxId, SandboxState, SandboxView};

/// What the engine holds of a sandbox that is not over.
pub(crate) struct Sandbox {
    pub id: SandboxId,
    /// Whose it is.
    pub account: AccountId,
    /// The longest life from ready that its account has.
    pub max_life: Duration,
    /// Where its commands start.
    pub workdir: String,
    /// What it may reach, and through what.
    pub link: Link,
    /// Held while a decision about its life is taken (publish, extend, end). Under it the store
    /// is written first and `live` second.
    pub decision: tokio::sync::Mutex<()>,
    /// Held by the one that removes it.
    pub removal: tokio::sync::Mutex<()>,
    /// Interpreters that were found in it.
    pub interpreters: tokio::sync::Mutex<Option<Arc<[String]>>>,
    /// True once its create has let go of it: from then on [`crate::Engine::remove`] removes it.
    handed_over: watch::Sender<bool>,
    /// True while somebody finds out whether it still answers.
    pub checking: AtomicBool,
    /// Whether it may be recorded as paused while it runs, or the other way round.
    pub unrecorded: AtomicBool,
    /// Who uses it.
    pub uses: Uses,
    live: Mutex<Live>,
    ended: watch::Sender<Option<Ended>>,
    over: watch::Sender<bool>,
    settled: watch::Sender<bool>,
    paused: watch::Sender<bool>,
    runs: watch::Sender<usize>,
    /// Copies of its files that are being made.
    copies: Arc<()>,
    /// What may be reached of it from outside.
    pub ports: Exposures,
    /// The direct way there.
    pub direct: Direct,
    machine: OnceLock<Attached>,
    measured: OnceLock<Measured>,
    /// What it stands on, and what keeps that.
    standing: OnceLock<Standing>,
    hold: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

struct Attached {
    machine: Arc<dyn Machine>,
    guest: GuestClient,
}

/// The part that changes.
#[derive(Clone)]
pub(crate) struct Live {
    pub record: Record,
    /// When it became ready, on the monotonic clock.
    pub ready: Option<Instant>,
    /// The lease's end on the monotonic clock, which decides.
    pub deadline: Option<Instant>,
    /// The latest moment that the lease may reach.
    pub ceiling: Option<Instant>,
}

impl Live {
    /// The time at `moment` by the clock that its life is measured and paid with: the wall clock
    /// when it became ready, and from there on the monotonic one. So no step of the wall clock is
    /// charged or lengthens a lease.
    pub fn at(&self, moment: Instant) -> Timestamp {
        let (Some(ready_at), Some(ready)) = (self.record.ready_at, self.ready) else {
            return Timestamp::now();
        };
        let since = SignedDuration::try_from(moment.saturating_duration_since(ready));
        let since = since.unwrap_or(SignedDuration::MAX);
        ready_at.checked_add(since).unwrap_or(Timestamp::MAX)
    }
}

/// Counts a command in flight.
pub(crate) struct RunGuard(Arc<Sandbox>);

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.runs.send_modify(|count| *count -= 1);
    }
}

impl Sandbox {
    pub fn new(
        record: Record,
        workdir: String,
        max_life: Duration,
        ceiling: Option<EgressPolicy>,
    ) -> Self {
        let link = Link::new(network::recorded(&record.network), ceiling, record.traffic);
        Self {
            link,
            id: record.id,
            account: record.account_id,
            max_life,
            workdir,
            decision: tokio::sync::Mutex::default(),
            removal: tokio::sync::Mutex::default(),
            interpreters: tokio::sync::Mutex::default(),
            handed_over: watch::Sender::new(false),
            checking: AtomicBool::new(false),
            unrecorded: AtomicBool::new(false),
            uses: Uses::default(),
            live: Mutex::new(Live { record, ready: None, deadline: None, ceiling: None }),
            ended: watch::Sender::new(None),
            over: watch::Sender::new(false),
            settled: watch::Sender::new(false),
            paused: watch::Sender::new(false),
            runs: watch::Sender::new(0),
            copies: Arc::default(),
            ports: Exposures::default(),
            direct: Direct::default(),
            machine: OnceLock::new(),
            measured: OnceLock::new(),
            standing: OnceLock::new(),
            hold: Mutex::default(),
        }
    }

    /// It stands on a template, which stays until [`Self::let_go`].
    pub fn stands_on(&self, standing: Standing, hold: Option<Box<dyn Any + Send + Sync>>) {
        // Once, by who makes it or takes it over.
        let _ = self.standing.set(standing);
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }

    /// What it stands on.
    pub fn standing(&self) -> Standing {
        self.standing.get().cloned().unwrap_or_default()
    }

    /// Its processes stand still, for as long as the answer lives.
    pub fn stand_still(self: &Arc<Self>) -> Still {
        Still::new(Arc::clone(self), Arc::clone(&self.copies))
    }

    /// True while they do, so that nobody expects an answer.
    pub fn stands_still(&self) -> bool {
        Arc::strong_count(&self.copies) > 1
    }

    /// Nothing of it is left: its template may go as well.
    pub fn let_go(&self) {
        drop(self.hold.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the part that changes.
    pub fn live(&self) -> Live {
        self.lock().clone()
    }

    pub fn state(&self) -> SandboxState {
        self.lock().record.state
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.lock().deadline
    }

    /// The time at `moment`, see [`Live::at`].
    pub fn at(&self, moment: Instant) -> Timestamp {
        self.lock().at(moment)
    }

    /// The time now, see [`Live::at`].
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// The lifetime that it was made with.
    pub fn lifetime(&self) -> Duration {
        self.lock().record.lifetime
    }

    pub fn has_secrets(&self) -> bool {
        !self.lock().record.secrets.is_empty()
    }

    pub fn is_priced(&self) -> bool {
        let live = self.lock();
        live.record.price_per_second > 0 || live.record.pause.price_per_second > 0
    }

    /// Takes over the record as the store has it. Only before anybody else knows the sandbox.
    pub fn reserved(&self, record: Record) {
        self.lock().record = record;
    }

    pub fn ended_now(&self) -> Option<Ended> {
        self.lock().record.ended
    }

    /// Replaces the part that changes and tells those who wait when it ended. Only under
    /// `decision`, after the store has it.
    pub fn set(&self, live: Live) {
        let (ended, over) = (live.record.ended, live.record.state.is_over());
        let settled = live.record.state != SandboxState::Provisioning;
        let paused = live.record.state == SandboxState::Paused;
        *self.lock() = live;
        if ended.is_some() || over {
            self.direct.close();
        }
        self.ended.send_if_modified(|seen| {
            let news = seen.is_none() && ended.is_some();
            if news {
                *seen = ended;
            }
            news
        });
        self.paused.send_replace(paused);
        if settled {
            self.settled.send_replace(true);
        }
        if over {
            self.over.send_replace(true);
        }
    }

    /// The create was taken back: nothing remains to wait for.
    pub fn forgotten(&self) {
        self.direct.close();
        self.settled.send_replace(true);
        self.over.send_replace(true);
    }

    /// Resolves once it is ending.
    pub async fn ended(&self) -> Ended {
        let mut seen = self.ended.subscribe();
        match seen.wait_for(Option::is_some).await.map(|ended| *ended) {
            Ok(Some(ended)) => ended,
            // Cannot be: the sender is in `self`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Its create lets go of it, or takes it back.
    pub fn hand_over(&self, handed: bool) {
        self.handed_over.send_replace(handed);
    }

    /// Resolves once its create has let go of it.
    pub async fn handed_over(&self) {
        let _ = self.handed_over.subscribe().wait_for(|handed| *handed).await;
    }

    /// Resolves once its create has made it or failed.
    pub async fn settled(&self) {
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    /// Resolves once it is not paused.
    pub async fn awake(&self) {
        let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
    }

    /// Resolves once nothing of it is left.
    pub async fn over(&self) {
        // An error cannot be: the sender is in `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// Resolves once no command is in flight.
    pub async fn quiet(&self) {
        let _ = self.runs.subscribe().wait_for(|count| *count == 0).await;
    }

    pub fn start_run(self: &Arc<Self>) -> RunGuard {
        self.runs.send_modify(|count| *count += 1);
        RunGuard(Arc::clone(self))
    }

    pub fn attach(&self, machine: Box<dyn Machine>) -> Result<(), Error> {
        let machine: Arc<dyn Machine> = Arc::from(machine);
        let guest = GuestClient::new(machine.guest_socket());
        let set = self.machine.set(Attached { machine, guest });
        set.map_err(|_| Error::internal("attach", &"the sandbox has a machine already"))
    }

    pub fn machine(&self) -> Option<&Arc<dyn Machine>> {
        self.machine.get().map(|attached| &attached.machine)
    }

    pub fn guest(&self) -> Result<&GuestClient, Error> {
        self.machine.get().map(|attached| &attached.guest).ok_or_else(|| self.not_ready())
    }

    pub fn not_ready(&self) -> Error {
        Error::new(ErrorKind::Unavailable, format!("sandbox {} is still being made", self.id))
    }

    pub fn usage(&self) -> Usage {
        self.machine().map(|machine| machine.usage()).unwrap_or_default()
    }

    pub fn oom_kills(&self) -> Option<u64> {
        self.machine()?.oom_kills()
    }

    pub fn set_measured(&self, measured: Measured) {
        // A second measurement of the same sandbox would be the same.
        let _ = self.measured.set(measured);
    }

    pub fn measured(&self) -> Measured {
        self.measured.get().cloned().unwrap_or_default()
    }

    pub fn view(&self) -> SandboxView {
        let empty = Measured::default();
        view(&self.live().record, self.measured.get().unwrap_or(&empty))
    }
}

/// A record as callers see it.
pub(crate) fn view(record: &Record, measured: &Measured) -> SandboxView {
    SandboxView {
        id: record.id,
        name: record.name.clone(),
        state: record.state,
        template: record.template.clone(),
        size: record.size,
        vcpus: record.given.vcpus,
        vcpus_asked: (record.vcpus_asked != record.given.vcpus).then_some(record.vcpus_asked),
        memory_mb: record.given.memory_mb,
        disk_mb: record.given.disk_mb,
        created_at: record.created_at,
        ready_at: record.ready_at,
        expires_at: record.expires_at,
        network: network::recorded(&record.network),
        network_now: None,
        secrets: record.secrets.keys().cloned().collect(),
        enforced: measured.enforced.clone(),
        missing: measured.missing.clone(),
        metadata: record.metadata.clone(),
        session: record.session.clone(),
        price_per_second: record.price_per_second,
        paused_price_per_second: record.pause.price_per_second,
        paused_at: record.pause.turned_at.filter(|_| record.state == SandboxState::Paused),
        auto_pause: record.pause.after,
        auto_resume: record.pause.auto_resume,
        ports: Vec::new(),
        usage: None,
        ended: record.ended,
    }
}
