//! The meter: charges what runs, and ends what nobody pays for.
//!
//! At each interval every sandbox that runs or is paused is charged up to now, which also writes down
//! that it lives; without a price that is all that happens. An account that has nothing left gets a grace;
//! after it, unless somebody has paid, its sandboxes end. The store sees to it that each second is
//! charged once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use holm_store::AccountId;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::engine::Inner;
use crate::sandbox::Sandbox;
use crate::{EndReason, Engine, Error};

/// Accounts with nothing left.
#[derive(Debug)]
pub(crate) struct Meter {
    grace: Duration,
    /// Below this a balance is low.
    low: i64,
    /// Accounts whose balance is low, which was told.
    told: Mutex<HashSet<AccountId>>,
    /// Account → when its grace ends.
    broke: Mutex<HashMap<AccountId, Instant>>,
    changed: Notify,
}

impl Meter {
    pub fn new(grace: Duration, low: i64) -> Self {
        let (told, broke) = (Mutex::default(), Mutex::default());
        Self { grace, low, told, broke, changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Instant>> {
        self.broke.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Looks at a balance: who has something again is out of trouble.
    pub fn seen(&self, account: AccountId, balance: i64) {
        if balance > 0 {
            self.lock().remove(&account);
        }
        if balance >= self.low {
            self.told().remove(&account);
        }
    }

    fn told(&self) -> MutexGuard<'_, HashSet<AccountId>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when a balance is low, and was not the last time.
    fn runs_low(&self, account: AccountId, balance: i64) -> bool {
        balance < self.low && self.told().insert(account)
    }

    /// The balance of an account that pays for something. True when its grace begins.
    fn judge(&self, account: AccountId, balance: i64, now: Instant) -> bool {
        self.seen(account, balance);
        let mut broke = self.lock();
        if balance > 0 || broke.contains_key(&account) {
            return false;
        }
        broke.insert(account, now + self.grace);
        true
    }

    /// Forgets accounts that have nothing to pay for.
    fn keep(&self, paying: &HashSet<AccountId>) {
        self.lock().retain(|account, _| paying.contains(account));
    }

    fn next(&self) -> Option<Instant> {
        self.lock().values().min().copied()
    }

    fn due(&self, now: Instant) -> Vec<AccountId> {
        self.lock().iter().filter(|(_, end)| **end <= now).map(|(account, _)| *account).collect()
    }

    fn again(&self, account: AccountId, at: Instant) {
        self.lock().insert(account, at);
    }
}

/// Starts the meter's task; it ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let meter = Arc::clone(&engine.inner.meter);
    let interval = engine.inner.settings.meter_interval.max(Duration::from_millis(10));
    tokio::spawn(run(meter, Arc::downgrade(&engine.inner), interval));
}

async fn run(meter: Arc<Meter>, engine: Weak<Inner>, interval: Duration) {
    let mut next = Instant::now() + interval;
    loop {
        let wake = meter.next().map_or(next, |grace| grace.min(next));
        tokio::select! {
            () = sleep_until(wake) => {}
            () = meter.changed.notified() => {}
        }
        let Some(inner) = engine.upgrade() else { return };
        let engine = Engine::of_operator(inner);
        if Instant::now() >= next {
            if let Err(error) = engine.say_alive().await {
                tracing::warn!(internal = error.internal, "cannot say that this node lives");
            }
            engine.charge_all().await;
            engine.inner.counts.charged();
            next = Instant::now() + interval;
        }
        for account in meter.due(Instant::now()) {
            if let Err(error) = engine.end_of_grace(account).await {
                tracing::error!(%account, internal = error.internal, "cannot look at a balance");
                meter.again(account, Instant::now() + interval);
            }
        }
    }
}

impl Engine {
    /// Those that are charged: what is paused costs as well.
    fn charged(&self, wanted: impl Fn(&Sandbox) -> bool) -> Vec<Arc<Sandbox>> {
        let mut all = self.inner.registry.all();
        all.retain(|sandbox| sandbox.state().is_live() && wanted(sandbox));
        all
    }

    /// Charges everything that runs up to now. What fails is made up for the next time: the mark
    /// has not moved.
    pub(crate) async fn charge_all(&self) {
        let mut paying = HashSet::new();
        let mut charges = JoinSet::new();
        for sandbox in self.charged(|_| true) {
            let charge = self.inner.store.ledger_charge(sandbox.id, sandbox.now());
            charges.spawn(async move { (sandbox, charge.await) });
        }
        while let Some(charged) = charges.join_next().await {
            let Ok((sandbox, result)) = charged else { continue };
            match result {
                Ok(charged) if sandbox.is_priced() => {
                    paying.insert(sandbox.account);
                    self.judge_balance(sandbox.account, charged.balance).await;
                }
                Ok(_) => {}
                Err(error) => {
                    if sandbox.is_priced() {
                        paying.insert(sandbox.account);
                    }
                    let internal = error.internal();
                    tracing::error!(id = %sandbox.id, %error, internal, "cannot charge");
                }
            }
        }
        self.inner.meter.keep(&paying);
    }

    /// Ends what the account cannot pay for, unless somebody has paid meanwhile.
    async fn end_of_grace(&self, account: AccountId) -> Result<(), Error> {
        let balance = self.inner.store.ledger_balance(account).await?;
        if balance > 0 {
            self.inner.meter.seen(account, balance);
            return Ok(());
        }
        for sandbox in self.charged(|sandbox| sandbox.account == account && sandbox.is_priced()) {
            // What cannot be removed now the sweep removes.
            drop(self.end_in_background(sandbox, EndReason::Balance));
        }
        self.inner.meter.lock().remove(&account);
        Ok(())
    }

    /// Tells of a balance that has become low, or nothing.
    async fn judge_balance(&self, account: AccountId, balance: i64) {
        let (meter, grace) = (&self.inner.meter, self.inner.settings.balance_grace);
        let runs_low = meter.runs_low(account, balance);
        if meter.judge(account, balance, Instant::now()) {
            tracing::warn!(%account, balance, ?grace, "an account's balance is used up");
            self.tell_balance(account, balance, Some(grace)).await;
        } else if runs_low && balance > 0 {
            tracing::info!(%account, balance, "an account's balance is low");
            self.tell_balance(account, balance, None).await;
        }
    }

    /// The same after the last charge of a sandbox, which no visit of the meter sees. Nobody waits.
    pub(crate) fn judge_later(&self, account: AccountId) {
        if self.inner.settings.webhooks.is_empty() {
            return;
        }
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            match engine.inner.store.ledger_balance(account).await {
                Ok(balance) if engine.inner.meter.runs_low(account, balance) => {
                    engine.tell_balance(account, balance, None).await;
                }
                Ok(_) => {}
                // The next charge looks again.
                Err(error) => tracing::warn!(%account, internal = error.internal(), "no balance"),
            }
        });
    }

    /// With the time after which its sandboxes end where nothing is left.
    async fn tell_balance(&self, account: AccountId, balance: i64, grace: Option<Duration>) {
        if self.inner.settings.webhooks.is_empty() {
            return;
        }
        let payload = json!({
            "account_id": account, "balance": balance, "threshold": self.inner.meter.low,
            "used_up": balance <= 0, "grace_seconds": grace.map(|grace| grace.as_secs()),
        });
        let events = match self.events_of("balance_low", account, &payload) {
            Ok(events) => events,
            Err(error) => {
                tracing::error!(internal = error.internal, "cannot tell of a balance");
                return;
            }
        };
        for event in events {
            if let Err(error) = self.inner.store.outbox_add(event).await {
                tracing::error!(internal = error.internal(), "cannot tell of a balance");
            }
        }
        self.events_recorded();
    }
}
