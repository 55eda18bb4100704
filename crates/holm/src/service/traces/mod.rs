//! Tells a collector of OpenTelemetry which requests there were.
//!
//! Nothing waits for the collector: spans go into a queue of bounded length, and what does not fit,
//! or is not taken, is dropped and counted.

mod encode;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use holm_client::otlp::{Collector, Headers};
use holm_client::{Proxies, Roots, Url};
use holm_gateway::http::trace::{Collect, Counts, Span};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use crate::exit::Failure;

/// Spans that may wait.
const QUEUE: usize = 2048;
/// Spans that are sent at once.
const BATCH: usize = 512;
/// The longest that a span waits for others.
const PAUSE: Duration = Duration::from_secs(5);
/// How long sending may take, and at the end all of it.
const SENDING: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(3);

/// Whom to tell.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// The collector.
    pub url: Url,
    /// What it wants besides.
    pub headers: Headers,
    /// The name of the service there.
    pub name: String,
    /// Whom to trust.
    pub roots: Roots,
    /// Proxies to go through.
    pub proxies: Proxies,
}

/// Tells it.
pub struct Traces {
    queue: mpsc::Sender<Span>,
    tally: Arc<Tally>,
    end: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    dropped: AtomicU64,
    /// The last attempt failed.
    is_away: AtomicBool,
}

impl TraceSettings {
    /// Starts to tell it; `node` tells this machine's spans from others'.
    ///
    /// # Errors
    /// When TLS is needed and there is nobody to trust.
    pub fn start(&self, node: &str) -> Result<Arc<Traces>, Failure> {
        let Self { url, headers, name, roots, proxies } = self.clone();
        let collector = Collector::new(url, headers, roots, proxies, SENDING);
        let collector = collector.map_err(|error| Failure::new(format!("traces: {error}")))?;
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (end, ended) = oneshot::channel();
        let tally = Arc::<Tally>::default();
        let resource = encode::resource(&name, node);
        let pump = Pump { collector, resource, waiting, tally: Arc::clone(&tally) };
        let task = tokio::spawn(pump.run(ended));
        Ok(Arc::new(Traces { queue, tally, end: Mutex::new(Some((end, task))) }))
    }
}

impl Collect for Traces {
    fn take(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            sent: self.tally.sent.load(Ordering::Relaxed),
            dropped: self.tally.dropped.load(Ordering::Relaxed),
        }
    }
}

impl Traces {
    /// Sends what waits, for as long as that is bearable.
    pub async fn stop(&self) {
        let Some((end, mut task)) = self.end.lock().await.take() else { return };
        // An error means that it has ended already.
        let _ = end.send(());
        if timeout(FAREWELL, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the last traces were not taken in time");
        }
    }
}

struct Pump {
    collector: Collector,
    resource: serde_json::Value,
    waiting: mpsc::Receiver<Span>,
    tally: Arc<Tally>,
}

impl Pump {
    async fn run(mut self, mut ended: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        let mut ticks = interval(PAUSE);
        loop {
            let room = BATCH - batch.len();
            let is_due = tokio::select! {
                biased;
                // An error means the same: nobody will stop it any more.
                _ = &mut ended => break,
                _ = ticks.tick() => true,
                _ = self.waiting.recv_many(&mut batch, room) => false,
            };
            if is_due || batch.len() == BATCH {
                self.send(&mut batch).await;
            }
        }
        self.waiting.close();
        loop {
            let room = BATCH - batch.len();
            let is_last = self.waiting.recv_many(&mut batch, room).await == 0;
            if is_last || batch.len() == BATCH {
                self.send(&mut batch).await;
            }
            if is_last {
                return;
            }
        }
    }

    async fn send(&self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let count = batch.len() as u64;
        let sent = self.collector.send(encode::spans(&self.resource, batch).to_string()).await;
        batch.clear();
        // Said when it changes, not with each batch.
        let was_away = self.tally.is_away.swap(sent.is_err(), Ordering::Relaxed);
        match sent {
            Ok(()) => {
                self.tally.sent.fetch_add(count, Ordering::Relaxed);
                if was_away {
                    tracing::info!("traces are taken again");
                }
            }
            Err(error) => {
                self.tally.dropped.fetch_add(count, Ordering::Relaxed);
                if !was_away {
                    tracing::warn!(%error, "traces are not taken, and dropped until they are");
                }
            }
        }
    }
}
