//! Ports of a sandbox that may be reached from outside, and the way to them.
//!
//! What is exposed is in the store, so that it survives a restart; a running sandbox has it in
//! memory too, where each request of a visitor finds it. Visitors are nobody's callers: who may
//! look is judged by the face in front, which knows tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_store::{Event, KeyScope, Owner, Port};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::event::Happened;
use crate::sandbox::Sandbox;
use crate::uses::Use;
use crate::{AccountId, Ended, Engine, Error, ErrorKind, SandboxId, SandboxState, Way};

/// How often traffic extends a lease, at most; sooner where that is a quarter of the lifetime.
const TOUCH_EVERY: Duration = Duration::from_secs(10);

/// How a port is exposed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Whether everybody may look, without a token.
    pub public: bool,
    /// Whether traffic extends the sandbox's lease, as use of a session's default sandbox does.
    pub extend_lease: bool,
}

/// The exposed ports of a running sandbox.
#[derive(Debug, Default)]
pub(crate) struct Exposures {
    /// Held while they are changed: the store first, then here.
    change: tokio::sync::Mutex<()>,
    by_number: Mutex<BTreeMap<u16, Arc<Exposed>>>,
    touched: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Exposed {
    port: Port,
    /// True once nobody may go on with what was opened by it, or before by other options.
    over: Arc<watch::Sender<bool>>,
}

impl Exposures {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Exposed>>> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.by_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, number: u16) -> Option<Arc<Exposed>> {
        self.lock().get(&number).cloned()
    }

    fn put(&self, port: Port) {
        let before = self.get(port.port);
        // Who looked only because everybody might may not go on.
        let (going_on, ending): (Option<_>, Option<_>) = match before {
            Some(before) if before.port.public && !port.public => (None, Some(before)),
            before => (before.map(|before| Arc::clone(&before.over)), None),
        };
        let exposed = Arc::new(Exposed { port, over: going_on.unwrap_or_default() });
        self.lock().insert(exposed.port.port, exposed);
        if let Some(ending) = ending {
            ending.over.send_replace(true);
        }
    }

    fn remove(&self, number: u16) {
        let removed = self.lock().remove(&number);
        if let Some(removed) = removed {
            removed.over.send_replace(true);
        }
    }

    pub fn list(&self) -> Vec<Port> {
        self.lock().values().map(|exposed| exposed.port.clone()).collect()
    }

    /// What an engine before this one has exposed.
    pub fn adopt(&self, ports: Vec<Port>) {
        ports.into_iter().for_each(|port| self.put(port));
    }
}

/// A port that a visitor may be let to.
#[derive(Clone)]
pub struct Preview {
    engine: Engine,
    sandbox: Arc<Sandbox>,
    exposed: Arc<Exposed>,
}

/// Why there is nothing to let a visitor to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPreview {
    /// No such sandbox here, or the port is not exposed.
    Unknown,
    /// The sandbox had it exposed and has ended.
    Gone(Ended),
}

/// Why a connection to a port came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotConnected {
    /// Nothing listens there.
    Refused,
    /// The sandbox does not answer.
    Unreachable,
    /// The sandbox is paused and does not go on by a visit.
    Paused,
}

impl Engine {
    /// Lets a port be reached from outside. Idempotent; the options of the last call count.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for port 0; [`ErrorKind::QuotaExceeded`] where the sandbox
    /// has as many as it may; `not_found`, `sandbox_gone`.
    pub async fn port_expose(
        &self,
        id: &SandboxId,
        number: u16,
        options: PortOptions,
    ) -> Result<Port, Error> {
        let result = self.expose(id, number, options).await;
        let detail = json!({
            "port": number, "public": options.public, "extend_lease": options.extend_lease,
        });
        // What is not there is nobody's doing, and could be asked for without end.
        if !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound) {
            self.audit_result("port.expose", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn expose(
        &self,
        id: &SandboxId,
        number: u16,
        options: PortOptions,
    ) -> Result<Port, Error> {
        if number == 0 {
            return Err(Error::invalid("port must be from 1 to 65535"));
        }
        let PortOptions { public, extend_lease } = options;
        let sandbox = self.usable(id).await?;
        let _change = sandbox.ports.change.lock().await;
        if let Some(there) = sandbox.ports.get(number)
            && (there.port.public, there.port.extend_lease) == (public, extend_lease)
        {
            return Ok(there.port.clone());
        }
        let created_at = Timestamp::now();
        let port = Port { sandbox_id: *id, port: number, public, extend_lease, created_at };
        let events = self.port_events(Happened::PortExposed, &sandbox, number)?;
        let told = !events.is_empty();
        let port = self.inner.store.port_put(port, events).await?;
        sandbox.ports.put(port.clone());
        if told {
            self.events_recorded();
        }
        Ok(port)
    }

    /// Ends that, and everything that is open by it. False when it was not exposed.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`.
    pub async fn port_unexpose(&self, id: &SandboxId, number: u16) -> Result<bool, Error> {
        let result = self.unexpose(id, number).await;
        if !matches!(&result, Ok(false))
            && !result.as_ref().is_err_and(|error| error.kind == ErrorKind::NotFound)
        {
            let detail = json!({"port": number});
            self.audit_result("port.unexpose", Some(id.to_string()), &result, detail);
        }
        result
    }

    async fn unexpose(&self, id: &SandboxId, number: u16) -> Result<bool, Error> {
        let sandbox = self.usable(id).await?;
        let _change = sandbox.ports.change.lock().await;
        let events = self.port_events(Happened::PortUnexposed, &sandbox, number)?;
        let told = !events.is_empty();
        let removed = self.inner.store.port_remove(*id, number, events).await?;
        sandbox.ports.remove(number);
        if told && removed {
            self.events_recorded();
        }
        Ok(removed)
    }

    /// The exposed ports of a sandbox, by number.
    ///
    /// # Errors
    /// `not_found`, `sandbox_gone`; `forbidden` without a scope to read.
    pub async fn port_list(&self, id: &SandboxId) -> Result<Vec<Port>, Error> {
        self.caller.needs(KeyScope::Read)?;
        let Some(sandbox) = self.own(id) else { return Err(self.absent(id).await) };
        self.settle(&sandbox).await?;
        match sandbox.ended_now() {
            Some(ended) => Err(Error::gone(id, ended)),
            None => Ok(sandbox.ports.list()),
        }
    }

    fn port_events(
        &self,
        what: Happened,
        sandbox: &Sandbox,
        number: u16,
    ) -> Result<Vec<Event>, Error> {
        let mut events = self.events(&[what], &sandbox.live().record)?;
        for event in &mut events {
            event.payload["port"] = number.into();
        }
        Ok(events)
    }

    /// The way to a port for a visitor, whoever that is and whose sandbox it may be. Whether the
    /// visitor may go there is not judged here; see [`Preview::port`].
    ///
    /// # Errors
    /// [`NoPreview`]. A store that does not answer knows of nothing.
    pub async fn preview(&self, id: &SandboxId, number: u16) -> Result<Preview, NoPreview> {
        if let Some(sandbox) = self.inner.registry.get(id) {
            let Some(exposed) = sandbox.ports.get(number) else { return Err(NoPreview::Unknown) };
            if self.settle(&sandbox).await.is_err() {
                return Err(NoPreview::Unknown);
            }
            return match (sandbox.state(), sandbox.ended_now()) {
                (SandboxState::Running | SandboxState::Paused, _) => {
                    let engine = Self::of_operator(Arc::clone(&self.inner));
                    Ok(Preview { engine, sandbox, exposed })
                }
                (_, Some(ended)) => Err(NoPreview::Gone(ended)),
                (_, None) => Err(NoPreview::Unknown),
            };
        }
        // Anybody may ask, so few ask at once.
        let Ok(_turn) = self.inner.preview_lookups.try_acquire() else {
            return Err(NoPreview::Unknown);
        };
        let record = self.inner.store.sandbox_get(Owner::Any, *id).await;
        let Ok(Some(ended)) = record.map(|record| record.and_then(|record| record.ended)) else {
            return Err(NoPreview::Unknown);
        };
        let ports = self.inner.store.port_list(*id).await.unwrap_or_default();
        Err(match ports.iter().any(|port| port.port == number) {
            true => NoPreview::Gone(ended),
            false => NoPreview::Unknown,
        })
    }

    /// A connection to any port of an own sandbox, exposed or not, and what is held as long as it is
    /// used.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where nothing listens or the sandbox does not answer;
    /// `not_found`, `sandbox_gone`.
    pub async fn port_connect(&self, id: &SandboxId, number: u16) -> Result<(Way, Use), Error> {
        let sandbox = self.in_use(id).await?;
        let way = tokio::select! {
            biased;
            ended = sandbox.ended() => Err(Error::gone(id, ended)),
            way = self.way(&sandbox, number) => way.map_err(|why| {
                let text = match why {
                    NotConnected::Refused => format!("nothing listens on port {number} in {id}"),
                    NotConnected::Unreachable | NotConnected::Paused => {
                        format!("sandbox {id} does not answer")
                    }
                };
                Error::new(ErrorKind::Unavailable, text)
                    .suggest("Start a server on that port and try again.")
            }),
        };
        way.map(|way| (way, sandbox.into()))
    }
}

impl Preview {
    /// What is exposed.
    #[must_use]
    pub fn port(&self) -> &Port {
        &self.exposed.port
    }

    /// Whose it is.
    #[must_use]
    pub fn account(&self) -> AccountId {
        self.sandbox.account
    }

    /// Begins to use it, for as long as what is answered is held: a sandbox that is paused goes on
    /// first.
    ///
    /// # Errors
    /// See [`NotConnected`].
    pub async fn begin(&self) -> Result<Use, NotConnected> {
        match self.engine.in_use_by_visitor(&self.sandbox).await {
            Ok(in_use) => Ok(in_use.into()),
            Err(error) if error.kind == ErrorKind::SandboxPaused => Err(NotConnected::Paused),
            Err(error) => {
                tracing::debug!(id = %self.sandbox.id, %error, "no way for a visitor");
                Err(NotConnected::Unreachable)
            }
        }
    }

    /// A new connection.
    ///
    /// # Errors
    /// See [`NotConnected`].
    pub async fn connect(&self) -> Result<Way, NotConnected> {
        self.engine.way(&self.sandbox, self.exposed.port.port).await
    }

    /// Whether a new connection would go straight to the program, so that one through the guest is
    /// not worth keeping.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.sandbox.direct.is_open()
    }

    /// Resolves once nobody may go on: the sandbox is ending, which is told, or the port is not
    /// exposed any more.
    pub async fn over(&self) -> Option<Ended> {
        let mut over = self.exposed.over.subscribe();
        tokio::select! {
            ended = self.sandbox.ended() => Some(ended),
            // The sender is in `self`.
            _ = over.wait_for(|over| *over) => None,
        }
    }

    /// Notes that there is traffic: where that was asked for, it extends the lease. Cheap.
    pub fn traffic(&self) {
        if !self.exposed.port.extend_lease {
            return;
        }
        let lifetime = self.sandbox.lifetime();
        let now = Instant::now();
        {
            let touched = &self.sandbox.ports.touched;
            let mut touched = touched.lock().unwrap_or_else(PoisonError::into_inner);
            let every = TOUCH_EVERY.min(lifetime / 4);
            if touched.is_some_and(|last| now < last + every) {
                return;
            }
            *touched = Some(now);
        }
        let this = self.clone();
        self.engine.inner.tasks.spawn(async move {
            if let Err(error) = this.engine.touch(&this.sandbox).await {
                tracing::debug!(id = %this.sandbox.id, %error, "traffic did not extend a lease");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexposing_ends_what_was_opened_under_earlier_options_too() {
        let sandbox_id = SandboxId::random().expect("random bytes");
        let (exposures, created_at) = (Exposures::default(), Timestamp::now());
        let put = |public, extend_lease| {
            exposures.put(Port { sandbox_id, port: 80, public, extend_lease, created_at });
            exposures.get(80).expect("is there")
        };
        let is_over = |exposed: &Exposed| *exposed.over.borrow();
        let private = put(false, false);
        let (public, extending) = (put(true, false), put(true, true));
        assert!(![&private, &public, &extending].into_iter().any(|one| is_over(one)));
        // Closed: all who came while it was public go.
        let closed = put(false, true);
        assert!(is_over(&public) && is_over(&extending) && !is_over(&closed));
        let again = put(true, true);
        exposures.remove(80);
        assert!(is_over(&closed) && is_over(&again));
    }
}
