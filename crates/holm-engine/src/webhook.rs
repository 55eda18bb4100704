//! Tells webhooks what happened: reads the outbox, one event after the other for each webhook, and
//! tries again until it was heard or is too old.
//!
//! How a message travels is a [`Deliver`]'s affair. An event is told at least once, under an id that
//! never changes. In the order in which things happened, as long as all goes well: what failed is
//! tried again later, and what happened after it does not wait. Each webhook has a task of its own,
//! and each task one event at a time, so that who is slow holds up nobody else and no memory grows.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holm_store::{
    AccountId, Completion, Delivery, DeliveryOutcome, EventId, OutboxClaim, Store, StoreError,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Engine;

/// Attempts after which the pause grows no further.
const STEPS: u32 = 20;

/// A message to one webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The event's id: the same for every attempt.
    pub id: EventId,
    /// The webhook, by its name in [`EngineSettings::webhooks`](crate::EngineSettings::webhooks).
    pub target: String,
    /// What to say.
    pub body: Value,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// The webhook has it.
    Yes,
    /// It has not. The text is for the log, without secrets; the time is the earliest for another
    /// attempt, where the webhook has named one.
    No(String, Option<Duration>),
}

/// Takes messages to webhooks.
pub trait Deliver: Send + Sync + 'static {
    /// One attempt. Bounded in time by itself; dropping it gives it up.
    fn deliver(&self, message: Message) -> Pin<Box<dyn Future<Output = Delivered> + Send + '_>>;
}

/// How webhooks are told.
#[derive(Debug, Clone)]
pub struct WebhookRules {
    /// The pause after the first failed attempt; it triples with each further one.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The age at which an event is given up.
    pub give_up: Duration,
    /// How long events that are done are kept.
    pub keep: Duration,
    /// How long an attempt may take, with some room. After it another process may try, for this one
    /// may be dead.
    pub lease: Duration,
    /// How often to look for events whose recording was not noticed: of other processes, and due
    /// again.
    pub look: Duration,
}

impl Default for WebhookRules {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(6 * 3600),
            give_up: Duration::from_secs(3 * 86_400),
            keep: Duration::from_secs(7 * 86_400),
            lease: Duration::from_secs(30),
            look: Duration::from_secs(2),
        }
    }
}

impl WebhookRules {
    /// The pause after failed attempt `attempt` (from 1), with what the webhook has asked for.
    fn pause(&self, attempt: i64, asked: Option<Duration>) -> Duration {
        let steps = u32::try_from(attempt.saturating_sub(1)).unwrap_or(STEPS).min(STEPS);
        let grown = self.first_pause.saturating_mul(3_u32.saturating_pow(steps));
        grown.max(asked.unwrap_or_default()).min(self.longest_pause)
    }

    fn is_too_old(&self, delivery: &Delivery, now: Timestamp) -> bool {
        now.duration_since(delivery.event.created_at) >= signed(self.give_up)
    }
}

/// The tasks that tell webhooks. Dropping it stops them where they are; what was under way is told
/// again, by whoever comes next, when its lease is over.
pub struct Webhooks {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Webhooks {
    /// Stops them orderly: what is under way is given up, and told again by whoever comes next.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Engine {
    /// Starts to tell the webhooks of the settings. For one caller at a time in a process.
    #[must_use]
    pub fn webhooks_start(&self, deliver: Arc<dyn Deliver>, rules: WebhookRules) -> Webhooks {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for target in &self.inner.settings.webhooks {
            let teller = Teller {
                target: target.clone(),
                store: Arc::clone(&self.inner.store),
                deliver: Arc::clone(&deliver),
                rules: rules.clone(),
                told: self.inner.told.subscribe(),
                stopped: stopped.clone(),
            };
            tasks.spawn(teller.run());
        }
        tasks.spawn(tidy(Arc::clone(&self.inner.store), rules, stopped));
        Webhooks { tasks, stop }
    }
}

/// Tells one webhook.
struct Teller {
    target: String,
    store: Arc<dyn Store>,
    deliver: Arc<dyn Deliver>,
    rules: WebhookRules,
    /// Changes when events were recorded.
    told: watch::Receiver<()>,
    stopped: watch::Receiver<bool>,
}

impl Teller {
    async fn run(mut self) {
        let mut failures = 0;
        while !*self.stopped.borrow() {
            self.told.mark_unchanged();
            let outcome = match self.claim().await {
                Ok(Some(delivery)) => self.tell(delivery).await,
                Ok(None) => {
                    self.rest(self.rules.look, true).await;
                    continue;
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(true) => failures = 0,
                // A webhook that is down is not asked by every event in turn.
                Ok(false) => {
                    failures += 1;
                    let pause = self.rules.pause(failures, None) / 5;
                    self.rest(pause.min(Duration::from_secs(60)), false).await;
                }
                Err(error) => {
                    let internal = error.internal();
                    tracing::error!(target = self.target, %error, internal, "cannot read the outbox");
                    self.rest(self.rules.look, false).await;
                }
            }
        }
    }

    /// Waits, at most until the tasks are stopped, or (`eager`) something is recorded.
    async fn rest(&mut self, time: Duration, eager: bool) {
        let told = async {
            // An error means that the engine is gone, and nothing will be recorded any more.
            if !eager || self.told.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let woken = async {
            tokio::select! {
                () = told => {}
                () = stop(&mut self.stopped) => {}
            }
        };
        let _ = timeout(time, woken).await;
    }

    async fn claim(&self) -> Result<Option<Delivery>, StoreError> {
        let claim = OutboxClaim {
            target: Some(self.target.clone()),
            now: Timestamp::now(),
            lease: self.rules.lease,
            limit: 1,
        };
        Ok(self.store.outbox_claim(claim).await?.pop())
    }

    /// One attempt; says whether the webhook has the event.
    async fn tell(&mut self, delivery: Delivery) -> Result<bool, StoreError> {
        let message = message(&delivery);
        let delivered = tokio::select! {
            delivered = self.deliver.deliver(message) => Some(delivered),
            () = stop(&mut self.stopped) => None,
        };
        let now = Timestamp::now();
        let id = delivery.event.id;
        let heard = delivered == Some(Delivered::Yes);
        let outcome = match delivered {
            Some(Delivered::Yes) => DeliveryOutcome::Delivered,
            // At once, by whoever starts next.
            None => DeliveryOutcome::Retry(now),
            Some(Delivered::No(reason, _)) if self.rules.is_too_old(&delivery, now) => {
                tracing::error!(%id, target = self.target, reason, "an event is given up");
                DeliveryOutcome::Abandoned
            }
            Some(Delivered::No(reason, asked)) => {
                let pause = self.rules.pause(delivery.attempt, asked);
                let attempt = delivery.attempt;
                tracing::warn!(%id, target = self.target, attempt, reason, ?pause, "not told");
                DeliveryOutcome::Retry(now.checked_add(signed(pause)).unwrap_or(Timestamp::MAX))
            }
        };
        self.store.outbox_complete(completion(delivery, outcome, now)).await?;
        Ok(heard)
    }
}

/// Resolves when the tasks are to stop.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody holds the tasks any more.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn message(delivery: &Delivery) -> Message {
    let event = &delivery.event;
    let body = body(event.account_id, &event.kind, event.created_at, &event.payload);
    Message { id: event.id, target: event.target.clone(), body }
}

fn body(account: AccountId, kind: &str, at: Timestamp, data: &Value) -> Value {
    json!({"type": kind, "timestamp": at.to_string(), "account_id": account, "data": data})
}

fn completion(delivery: Delivery, outcome: DeliveryOutcome, at: Timestamp) -> Completion {
    let Delivery { event, attempt } = delivery;
    Completion { id: event.id, target: event.target, attempt, outcome, at }
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}

/// Removes what was done long ago, and gives up what is for webhooks that are no more.
async fn tidy(store: Arc<dyn Store>, rules: WebhookRules, mut stopped: watch::Receiver<bool>) {
    let every = (rules.give_up / 72).clamp(Duration::from_millis(20), Duration::from_secs(3600));
    while !*stopped.borrow() {
        if let Err(error) = tidy_once(&*store, &rules).await {
            tracing::warn!(%error, internal = error.internal(), "cannot tidy the outbox");
        }
        let _ = timeout(every, stop(&mut stopped)).await;
    }
}

async fn tidy_once(store: &dyn Store, rules: &WebhookRules) -> Result<(), StoreError> {
    let ago = |time| Timestamp::now().checked_sub(signed(time)).unwrap_or(Timestamp::MIN);
    store.outbox_prune(ago(rules.keep)).await?;
    loop {
        // What is tried at all is due again sooner than that.
        let now = ago(rules.give_up.max(rules.longest_pause));
        let claim = OutboxClaim { target: None, now, lease: rules.lease, limit: 100 };
        let left = store.outbox_claim(claim).await?;
        if left.is_empty() {
            return Ok(());
        }
        for delivery in left {
            let (id, target) = (delivery.event.id, delivery.event.target.clone());
            tracing::error!(%id, target, "an event is given up: nobody tells this webhook");
            let done = completion(delivery, DeliveryOutcome::Abandoned, Timestamp::now());
            store.outbox_complete(done).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let rules = WebhookRules::default();
        let seconds = |attempt, asked: Option<u64>| {
            rules.pause(attempt, asked.map(Duration::from_secs)).as_secs()
        };
        let grown: Vec<u64> = (1..=9).map(|attempt| seconds(attempt, None)).collect();
        assert_eq!(grown, [5, 15, 45, 135, 405, 1215, 3645, 10_935, 21_600]);
        assert_eq!(seconds(1000, None), 21_600);
        assert_eq!(seconds(1, Some(60)), 60);
        assert_eq!(seconds(3, Some(1)), 45);
        assert_eq!(seconds(1, Some(u64::MAX)), 21_600);
    }
}
