//! Webhooks are told everything, at least once, whatever they and the engine go through.

mod events;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holm_engine::{
    CreateSandbox, Deliver, Delivered, Engine, EngineSettings, EventId, Message, WebhookRules,
};
use holm_store::OutboxClaim;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::support::{Service, settings, until};

/// How a webhook behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Failing,
    /// Takes messages and never says so.
    Silent,
}

struct Receivers {
    moods: watch::Sender<HashMap<String, Mood>>,
    /// Every attempt, also those that failed.
    attempts: Mutex<Vec<Message>>,
    heard: Mutex<Vec<Message>>,
    open: Mutex<HashMap<String, usize>>,
}

impl Receivers {
    fn new(moods: &[(&str, Mood)]) -> Arc<Self> {
        let moods = moods.iter().map(|(name, mood)| ((*name).to_owned(), *mood)).collect();
        Arc::new(Self {
            moods: watch::Sender::new(moods),
            attempts: Mutex::default(),
            heard: Mutex::default(),
            open: Mutex::default(),
        })
    }

    fn turn(&self, name: &str, mood: Mood) {
        self.moods.send_modify(|moods| {
            moods.insert(name.to_owned(), mood);
        });
    }

    fn heard(&self, name: &str) -> Vec<Message> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|message| message.target == name).cloned().collect()
    }

    fn kinds(&self, name: &str) -> Vec<String> {
        let kind = |message: &Message| message.body["type"].as_str().unwrap().to_owned();
        self.heard(name).iter().map(kind).collect()
    }

    fn attempts(&self, name: &str) -> usize {
        self.attempts.lock().unwrap().iter().filter(|message| message.target == name).count()
    }
}

struct Open<'a>(&'a Receivers, String);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        *self.0.open.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
    }
}

impl Deliver for Receivers {
    fn deliver(&self, message: Message) -> Pin<Box<dyn Future<Output = Delivered> + Send + '_>> {
        Box::pin(async move {
            {
                let mut open = self.open.lock().unwrap();
                let count = open.entry(message.target.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "one message at a time for each webhook");
            }
            let _open = Open(self, message.target.clone());
            self.attempts.lock().unwrap().push(message.clone());
            let mut moods = self.moods.subscribe();
            let mood = *moods.borrow_and_update().get(&message.target).unwrap_or(&Mood::Well);
            match mood {
                Mood::Well => {
                    self.heard.lock().unwrap().push(message);
                    Delivered::Yes
                }
                Mood::Failing => Delivered::No("it fails".to_owned(), None),
                Mood::Silent => {
                    self.heard.lock().unwrap().push(message);
                    std::future::pending().await
                }
            }
        })
    }
}

fn service(names: &[&str]) -> Service {
    let webhooks = names.iter().map(|name| (*name).to_owned()).collect();
    Service::with(EngineSettings { webhooks, ..settings() })
}

fn rules() -> WebhookRules {
    WebhookRules {
        first_pause: Duration::from_millis(10),
        longest_pause: Duration::from_millis(40),
        look: Duration::from_millis(20),
        lease: Duration::from_millis(100),
        ..WebhookRules::default()
    }
}

async fn life(user: &Engine) {
    let id = user.sandbox_create(CreateSandbox::default()).await.unwrap().id;
    user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap();
    user.sandbox_destroy(&id).await.unwrap();
}

const LIFE: [&str; 4] =
    ["sandbox.created", "sandbox.ready", "sandbox.extended", "sandbox.destroyed"];

/// Waits until a webhook has heard so many different events.
async fn hears(receivers: &Receivers, name: &str, count: usize) {
    until("all events to be heard", || async {
        let mut ids: Vec<EventId> = receivers.heard(name).iter().map(|m| m.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len() >= count
    })
    .await;
}

#[tokio::test]
async fn what_happens_is_told_in_its_order_once() {
    let service = service(&["one", "two"]);
    let (account, user) = service.tenant().await;
    let receivers = Receivers::new(&[]);
    // A pause without bound shows that recording wakes the tellers.
    let rules = WebhookRules { look: Duration::from_secs(3600), ..rules() };
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules);
    for _ in 0..5 {
        life(&user).await;
    }
    for name in ["one", "two"] {
        hears(&receivers, name, 20).await;
        assert_eq!(receivers.kinds(name), LIFE.repeat(5), "{name}");
    }
    webhooks.stop().await;
    let first = receivers.heard("one").remove(0);
    assert_eq!(first.body["account_id"], account.to_string());
    assert!(first.body["data"]["sandbox_id"].is_string(), "{}", first.body);
    let same = receivers.heard("two").remove(0);
    assert_eq!((first.id, first.body), (same.id, same.body), "the same event");
}

#[tokio::test]
async fn one_that_never_answers_holds_nobody_up() {
    let service = service(&["slow", "down", "well"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[("slow", Mood::Silent), ("down", Mood::Failing)]);
    for _ in 0..100 {
        life(&user).await;
    }
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    hears(&receivers, "well", 400).await;
    assert_eq!(receivers.attempts("slow"), 1);
    webhooks.stop().await;
}

#[tokio::test]
async fn what_failed_is_told_later_under_the_same_id() {
    let service = service(&["one"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[("one", Mood::Failing)]);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    life(&user).await;
    until("some attempts", || async { receivers.attempts("one") >= 6 }).await;
    assert_eq!(receivers.kinds("one"), Vec::<String>::new());
    receivers.turn("one", Mood::Well);
    hears(&receivers, "one", 4).await;
    let mut kinds = receivers.kinds("one");
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        ["sandbox.created", "sandbox.destroyed", "sandbox.extended", "sandbox.ready"]
    );
    let attempts = receivers.attempts.lock().unwrap().clone();
    let mut ids: Vec<EventId> = attempts.iter().map(|message| message.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4, "an attempt is no new event");
    webhooks.stop().await;
}

#[tokio::test]
async fn nothing_is_lost_by_an_end_in_the_middle() {
    let mut service = service(&["one"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[("one", Mood::Silent)]);
    for orderly in [true, false] {
        let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
        let before = receivers.attempts("one");
        life(&user).await;
        until("an attempt", || async { receivers.attempts("one") > before }).await;
        match orderly {
            true => webhooks.stop().await,
            // As by a kill: nothing is written down.
            false => drop(webhooks),
        }
    }
    service.crash().await;
    // What was heard so far was not confirmed, so that it comes again.
    receivers.heard.lock().unwrap().clear();
    receivers.turn("one", Mood::Well);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    hears(&receivers, "one", 8).await;
    webhooks.stop().await;
    assert!(due(&service).await.is_empty(), "everything is done");
}

/// What is not done, whenever it is due.
async fn due(service: &Service) -> Vec<holm_store::Delivery> {
    let claim = OutboxClaim {
        target: None,
        now: Timestamp::MAX,
        lease: Duration::from_secs(1),
        limit: 100,
    };
    service.store.outbox_claim(claim).await.unwrap()
}

#[tokio::test]
async fn what_is_too_old_is_given_up() {
    let service = service(&["down", "forgotten"]);
    let (_, user) = service.tenant().await;
    life(&user).await;
    // The one is in the settings no more, the other one fails for too long.
    let engine = Engine::with_store(
        Arc::clone(&service.driver) as _,
        EngineSettings { webhooks: vec!["down".to_owned()], ..service.settings.clone() },
        Arc::clone(&service.store),
    );
    let receivers = Receivers::new(&[("down", Mood::Failing)]);
    let rules = WebhookRules {
        give_up: Duration::from_millis(200),
        longest_pause: Duration::from_millis(20),
        ..rules()
    };
    let webhooks = engine.webhooks_start(Arc::clone(&receivers) as _, rules);
    // Pruning counts what is done: four events for each of the two.
    let pruned = AtomicU64::new(0);
    until("both to be given up", || async {
        let now = service.store.outbox_prune(Timestamp::MAX).await.unwrap();
        pruned.fetch_add(now, Ordering::SeqCst) + now == 8
    })
    .await;
    webhooks.stop().await;
    assert!(due(&service).await.is_empty());
    assert_eq!(receivers.attempts("forgotten"), 0);
    assert_eq!(receivers.kinds("down"), Vec::<String>::new());
}

/// An event is part of what it tells, and so could stop it.
#[tokio::test]
async fn labels_that_no_event_can_repeat_stop_nothing() {
    let service = service(&["one"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[]);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    let most = 64 << 10;
    // Plain ones at each edge, and such that JSON makes longer.
    let labels = [
        "x".repeat(most - 1),
        "x".repeat(most - 400),
        "x".repeat(most / 2),
        "\n".repeat(most / 2),
        "\u{1}".repeat(most - 1),
    ];
    for label in &labels {
        let metadata = [("a".to_owned(), label.clone())].into();
        let request = CreateSandbox { metadata, ..CreateSandbox::default() };
        let id = user.sandbox_create(request).await.unwrap().id;
        user.sandbox_extend(&id, Duration::from_secs(60)).await.unwrap();
        user.sandbox_destroy(&id).await.unwrap();
    }
    hears(&receivers, "one", LIFE.len() * labels.len()).await;
    assert_eq!(receivers.kinds("one"), LIFE.repeat(labels.len()));
    for message in receivers.heard("one") {
        let data = &message.body["data"];
        assert!(data["metadata"].is_null() && data["metadata_left_out"] == true, "{data}");
    }
    webhooks.stop().await;
}
