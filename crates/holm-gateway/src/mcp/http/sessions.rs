//! Sessions of the revisions that have them: each belongs to whoever began it, and ends by DELETE,
//! when it was idle for too long, or with the server. A session is not idle while a request of it
//! is being answered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use holm_engine::{AccountId, Caller, Engine, KeyEnd, random_bytes};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::calls::{Calls, Over};
use crate::mcp::dispatch::MAX_CALLS;
use crate::mcp::revision::Revision;
use crate::mcp::session::Session;

/// How long sessions last and how many there may be.
#[derive(Debug, Clone, Copy)]
pub struct SessionRules {
    /// Idle time after which one ends.
    pub idle: Duration,
    /// Most of them at once.
    pub limit: usize,
    /// Most of them of one account. Where all are in use, one without sandboxes may make room for
    /// an account that has less than its equal share: see [`Sessions::open`].
    pub each: usize,
}

impl Default for SessionRules {
    fn default() -> Self {
        Self { idle: Duration::from_secs(3600), limit: 100, each: 100 }
    }
}

/// All sessions.
pub struct Sessions {
    engine: Engine,
    default_template: Option<String>,
    rules: SessionRules,
    table: Mutex<Table>,
}

type Table = HashMap<String, Arc<Entry>>;

/// One session.
pub struct Entry {
    /// Its id, which only its owner may use.
    pub id: String,
    /// Its state.
    pub session: Arc<Session>,
    /// Its running calls.
    pub calls: Arc<Calls>,
    owner: Caller,
    key_end: KeyEnd,
    usage: Mutex<Usage>,
}

struct Usage {
    /// Requests that are being answered.
    requests: usize,
    /// When the last of them ended.
    since: Instant,
}

/// A session in use: it does not become idle while this exists.
pub struct Held(Arc<Entry>);

impl Deref for Held {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

impl Held {
    fn new(entry: &Arc<Entry>) -> Self {
        entry.usage().requests += 1;
        Self(Arc::clone(entry))
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut usage = self.0.usage();
        usage.requests -= 1;
        usage.since = Instant::now();
    }
}

/// Why no session was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// As many as are allowed exist.
    #[error("all {0} sessions of this server are in use")]
    Full(usize),
    /// The account has as many as it may have.
    #[error("this account has {0} sessions, as many as one may have")]
    Share(usize),
    /// The system gives no random bytes for an id.
    #[error("no session id could be made")]
    NoId,
}

impl Sessions {
    /// None yet.
    #[must_use]
    pub fn new(engine: Engine, default_template: Option<String>, rules: SessionRules) -> Self {
        Self { engine, default_template, rules, table: Mutex::default() }
    }

    /// Begins one, which belongs to the key of `owner`: nobody else can use it, and it can do
    /// nothing else. Where as many exist as may, an idle one that has made no sandbox is given up
    /// for an account with less than an equal share; sandboxes are never destroyed for that. Sessions
    /// of a key that is refused go first.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn open(&self, owner: Caller) -> Result<Held, NotOpened> {
        self.sweep();
        let id = fresh_id().ok_or(NotOpened::NoId)?;
        let fallback = Revision::R2025_06_18;
        let engine = self.engine.for_caller(owner.clone().in_session(id.clone()));
        let account = owner.account;
        let key_end = engine.key_end();
        let session = Session::new(engine, self.default_template.clone(), fallback);
        let entry = Arc::new(Entry {
            id: id.clone(),
            session: Arc::new(session),
            calls: Calls::new(MAX_CALLS),
            owner,
            key_end,
            usage: Mutex::new(Usage { requests: 0, since: Instant::now() }),
        });
        let mut table = self.table();
        let own =
            |table: &Table| table.values().filter(|entry| entry.owner.account == account).count();
        if own(&table) >= self.rules.each || table.len() >= self.rules.limit {
            // Whose key works no more cannot end its sessions, and must not fill the house.
            for (_, entry) in table.extract_if(|_, entry| entry.key_end.is_refused()) {
                drop(close(entry, Over::Session));
            }
        }
        let own = own(&table);
        if own >= self.rules.each {
            return Err(NotOpened::Share(self.rules.each));
        }
        if table.len() >= self.rules.limit {
            let given_up = over_share(&table, account, own);
            let given_up = given_up.and_then(|id| table.remove(&id));
            let given_up = given_up.ok_or(NotOpened::Full(self.rules.limit))?;
            tracing::info!("a session was ended for one of an account that has fewer");
            drop(close(given_up, Over::Session));
        }
        table.insert(id, Arc::clone(&entry));
        Ok(Held::new(&entry))
    }

    /// The session of this id, if it is this owner's and not over.
    #[must_use]
    pub fn hold(&self, id: &str, owner: &Caller) -> Option<Held> {
        let table = self.table();
        let entry = table.get(id)?;
        (entry.owner == *owner && !entry.is_idle(self.rules.idle)).then(|| Held::new(entry))
    }

    /// Ends a session; false where there is none of this id and owner. The work goes on where the
    /// caller does not wait.
    pub async fn end(&self, id: &str, owner: &Caller) -> bool {
        let entry = {
            let mut table = self.table();
            match table.get(id) {
                Some(entry) if entry.owner == *owner => table.remove(id),
                _ => None,
            }
        };
        let Some(entry) = entry else { return false };
        let live = !entry.is_idle(self.rules.idle);
        // A panic inside is in the log; the sandboxes then end with their leases.
        let _ = close(entry, Over::Session).await;
        live
    }

    /// Ends those that were idle for too long.
    pub fn sweep(&self) {
        let over: Vec<Arc<Entry>> = self
            .table()
            .extract_if(|_, entry| entry.is_idle(self.rules.idle))
            .map(|(_, entry)| entry)
            .collect();
        for entry in over {
            tracing::debug!("a session was idle for too long");
            drop(close(entry, Over::Session));
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.table().len()
    }

    /// How often to sweep.
    #[must_use]
    pub fn sweep_every(&self) -> Duration {
        (self.rules.idle / 60).clamp(Duration::from_millis(10), Duration::from_secs(30))
    }

    /// Ends the calls of all sessions.
    pub fn stop_calls(&self) {
        for entry in self.table().values() {
            entry.calls.end(Over::Server);
        }
    }

    /// Ends all sessions, at the end of the server. What becomes of their sandboxes is not decided
    /// here: they may outlive it.
    pub async fn close(&self) {
        let all: Vec<Arc<Entry>> = self.table().drain().map(|(_, entry)| entry).collect();
        let closing: Vec<_> = all.into_iter().map(|entry| close(entry, Over::Server)).collect();
        for closed in closing {
            let _ = closed.await;
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change under the lock is one call of the map: it is whole even after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when nothing of it is being answered.
    fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage();
        (usage.requests == 0).then_some(usage.since)
    }

    fn is_idle(&self, time: Duration) -> bool {
        let usage = self.usage();
        usage.requests == 0 && usage.since.elapsed() >= time
    }
}

/// Which session makes room for one of an account that has `own`: of those of accounts with more
/// than an equal share that have no sandbox to lose, the one that is idle for longest. None where
/// the newcomer has its share.
fn over_share(table: &Table, newcomer: AccountId, own: usize) -> Option<String> {
    let mut counts = HashMap::from([(newcomer, own)]);
    for entry in table.values().filter(|entry| entry.owner.account != newcomer) {
        *counts.entry(entry.owner.account).or_default() += 1;
    }
    let share = table.len() / counts.len();
    if own >= share {
        return None;
    }
    let over = table.values().filter(|entry| counts[&entry.owner.account] > share);
    let over = over.filter(|entry| !entry.session.has_sandboxes());
    let idle = over.filter_map(|entry| Some((entry.idle_since()?, &entry.id)));
    idle.min().map(|(_, id)| id.clone())
}

/// Ends a session that is in the table no more, whether or not somebody waits for it.
fn close(entry: Arc<Entry>, over: Over) -> JoinHandle<()> {
    tokio::spawn(async move {
        entry.calls.end(over);
        entry.calls.quiet().await;
        if over != Over::Server {
            entry.session.close().await;
        }
    })
}

/// 128 random bits in the form of a UUID of version 4, which some clients expect.
fn fresh_id() -> Option<String> {
    let mut bytes: [u8; 16] = random_bytes().ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        // Writing into a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Some(id)
}
