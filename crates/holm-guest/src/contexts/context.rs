//! One context.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::kernel::{Context as View, End, Executed, GRACE_MS, START_MS, State, Status};
use serde::Deserialize;
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use super::gate::{Gate, Place};
use crate::bridge::lines::{Order, Run, Said};
use crate::errors::Result;
use crate::state::Shared;

/// Pieces of code that wait for their turn.
const MOST_WAITING: usize = 16;
/// What an answer may take beyond the code's own time, without a start.
const GRACE: Duration = Duration::from_millis(GRACE_MS - 2 * START_MS - 10_000);

/// A context.
#[derive(Debug)]
pub struct Context {
    /// Its id.
    pub id: String,
    /// Whose kernel, and where it starts.
    pub place: Place,
    /// What code runs in that names no context.
    pub is_default: bool,
    created_ms: u64,
    kernel: RefCell<String>,
    state: Cell<State>,
    executions: Cell<u64>,
    waiting: Cell<usize>,
    /// Its bridge, for whoever has the turn.
    gate: Mutex<Option<Gate>>,
    /// Counts how often what runs has been told to stop.
    stops: watch::Sender<u64>,
    deleted: Cell<bool>,
}

/// What came of code.
#[derive(Debug)]
pub struct Ran {
    /// An [`Executed`] as JSON.
    pub executed: Vec<u8>,
    /// How the kernel before had ended, if that is why this one was new.
    pub lost_before: Option<End>,
    /// How long it took.
    pub duration: Duration,
}

/// A place among those that wait.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What came of an order to run code.
enum Course {
    /// The bridge said something; nothing where it ended or said what no bridge says.
    Said(Option<Said>),
    /// Somebody wants the context anew, or away.
    Stopped,
    /// The bridge does not come to an end.
    Late,
}

/// Only how code ended.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Outcome {
    status: Status,
}

impl Context {
    /// A context without a kernel.
    pub fn new(id: String, place: Place, is_default: bool) -> Rc<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Rc::new(Self {
            id,
            place,
            is_default,
            created_ms: now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX)),
            kernel: RefCell::default(),
            state: Cell::default(),
            executions: Cell::default(),
            waiting: Cell::default(),
            gate: Mutex::default(),
            stops: watch::Sender::new(0),
            deleted: Cell::default(),
        })
    }

    /// How it is.
    pub fn view(&self, workdir: &str) -> View {
        View {
            id: self.id.clone(),
            language: self.place.language.clone(),
            kernel: self.kernel.borrow().clone(),
            state: self.state.get(),
            is_default: self.is_default,
            user: self.place.user.name.clone(),
            cwd: self.place.cwd.clone().unwrap_or_else(|| workdir.to_owned()),
            created_ms: self.created_ms,
            executions: self.executions.get(),
        }
    }

    /// True when it has had a kernel.
    pub fn was_used(&self) -> bool {
        !self.kernel.borrow().is_empty()
    }

    /// Starts its kernel, if it has none.
    ///
    /// # Errors
    /// See [`Gate::start`].
    pub async fn start(&self, guest: &Shared) -> Result<()> {
        let mut gate = self.gate.lock().await;
        self.started(guest, &mut gate).await.map(drop)
    }

    async fn started<'a>(
        &self,
        guest: &Shared,
        gate: &'a mut Option<Gate>,
    ) -> Result<&'a mut Gate> {
        let there = match gate.take() {
            Some(there) => there,
            None => {
                self.state.set(State::Busy);
                let mut stops = self.stops.subscribe();
                let started = tokio::select! {
                    started = Gate::start(guest, &self.place) => started,
                    _ = stops.changed() => Err(self.stopped()),
                };
                self.state.set(if started.is_ok() { State::Idle } else { State::Empty });
                let started = started?;
                self.kernel.borrow_mut().clone_from(&started.kernel);
                started
            }
        };
        Ok(gate.insert(there))
    }

    fn stopped(&self) -> Error {
        let text = format!("the context {} was restarted or deleted meanwhile", self.id);
        Error::new(Code::Aborted, text)
    }

    /// Runs code, after what came before it. `leave` is told when nobody wants the answer any more.
    ///
    /// # Errors
    /// When too many wait, when its turn does not come within the code's own time, when there is no
    /// kernel.
    pub async fn run(&self, guest: &Shared, run: Run, leave: &Notify) -> Result<Ran> {
        if self.waiting.get() >= MOST_WAITING {
            let text = format!("{MOST_WAITING} pieces of code wait for the context {}", self.id);
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        self.waiting.set(self.waiting.get() + 1);
        let waiting = Waiting(&self.waiting);
        let patience = Duration::from_millis(run.timeout_ms);
        let mut gate = tokio::select! {
            gate = self.gate.lock() => gate,
            () = leave.notified() => return Err(Error::new(Code::Canceled, "nobody waits for it")),
            () = tokio::time::sleep(patience) => {
                let text = format!("the context {} still runs what came before", self.id);
                return Err(Error::new(Code::DeadlineExceeded, text));
            }
        };
        drop(waiting);
        let mut lost_before = None;
        loop {
            if self.deleted.get() {
                return Err(Error::new(Code::NotFound, "the context was deleted meanwhile"));
            }
            let there = self.started(guest, &mut gate).await?;
            self.state.set(State::Busy);
            let began = Instant::now();
            let said = self.ask(there, &run, leave).await;
            let (executed, is_over) = match said {
                // Once: a kernel that ends before any code is not started again and again.
                Course::Said(Some(Said::Gone(end))) if lost_before.is_none() => {
                    lost_before = Some(end);
                    self.end(&mut gate).await;
                    continue;
                }
                Course::Said(Some(Said::Executed(json))) => {
                    let outcome: Outcome = serde_json::from_slice(&json).unwrap_or_default();
                    (json, matches!(outcome.status, Status::Stuck | Status::Died))
                }
                Course::Said(_) => (told(Status::Died, there.end().await), true),
                Course::Stopped => (told(Status::Stopped, None), true),
                Course::Late => (told(Status::Stuck, None), true),
            };
            self.executions.set(self.executions.get() + 1);
            self.state.set(State::Idle);
            if is_over {
                self.end(&mut gate).await;
            }
            return Ok(Ran { executed, lost_before, duration: began.elapsed() });
        }
    }

    /// Lets a bridge run code.
    async fn ask(&self, gate: &mut Gate, run: &Run, leave: &Notify) -> Course {
        let mut stops = self.stops.subscribe();
        let late = tokio::time::sleep(Duration::from_millis(run.timeout_ms).saturating_add(GRACE));
        tokio::pin!(late);
        if !gate.order(&Order::Run(run.clone())).await {
            return Course::Said(None);
        }
        let mut left = false;
        loop {
            tokio::select! {
                said = gate.said() => return Course::Said(said),
                _ = stops.changed() => return Course::Stopped,
                () = &mut late => return Course::Late,
                () = leave.notified(), if !left => left = true,
            }
            if left && !gate.order(&Order::Interrupt).await {
                return Course::Said(None);
            }
        }
    }

    async fn end(&self, gate: &mut Option<Gate>) {
        if let Some(gate) = gate.take() {
            gate.kill().await;
        }
        self.state.set(State::Empty);
    }

    /// Ends its kernel, and what runs in it.
    pub async fn restart(&self) {
        self.stops.send_modify(|count| *count += 1);
        let mut gate = self.gate.lock().await;
        self.end(&mut gate).await;
    }

    /// The same for ever.
    pub async fn delete(&self) {
        self.deleted.set(true);
        self.restart().await;
    }
}

/// What came of code whose bridge could not say it.
fn told(status: Status, end: Option<End>) -> Vec<u8> {
    let executed = Executed { status, end, ..Executed::default() };
    serde_json::to_vec(&executed).unwrap_or_default()
}
