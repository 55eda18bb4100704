//! Connections to programs in sandboxes, kept for a moment so that the next request need not make
//! one. Many servers close an idle connection after 5 seconds, so none is used that is older.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use holm_engine::{NotConnected, Preview, SandboxId, Use, Way};
use holm_http::Sender;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::client::conn::http1::Builder;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

/// A request's body on its way to a program.
pub type Outgoing = UnsyncBoxBody<Bytes, hyper::Error>;

/// How long a connection idles.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections to one port, and to all.
const EACH: usize = 32;
const ALL: usize = 512;
/// Bytes that are read at once, which bounds the head of an answer too.
const READ: usize = 128 << 10;
/// Headers of an answer at most.
const HEADERS: usize = 200;
/// How long a connection that has just served may take to be ready again.
const READY: Duration = Duration::from_millis(100);

type Key = (SandboxId, u16, i64);

/// Connections that idle.
#[derive(Clone, Default)]
pub struct Pool(Arc<Mutex<Idle>>);

#[derive(Default)]
struct Idle {
    all: HashMap<Key, Vec<(Instant, Line)>>,
    count: usize,
    is_swept: bool,
}

/// A connection. It ends when this is dropped, whatever is on its way by it.
pub struct Line {
    /// Where requests go in.
    pub sender: Sender<Outgoing>,
    is_direct: bool,
    task: AbortHandle,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection for one request.
pub struct Lent {
    /// It.
    pub line: Line,
    /// Whether it has served before, so that the program may have closed it meanwhile.
    pub used: bool,
    /// Alive while the request's body is on its way.
    pub body: Weak<()>,
    key: Key,
    pool: Pool,
    _in_use: Use,
}

impl Lent {
    /// The answer was read to its end. A body that is still on its way then goes no further: nobody
    /// counts it any more, and the program has said what it had to say. A connection through the guest
    /// is kept only where the next one would be no better.
    pub fn give_back(self, preview: &Preview) {
        let is_best = self.line.is_direct || !preview.is_direct();
        if is_best && !self.line.sender.is_closed() && self.body.strong_count() == 0 {
            self.pool.put(self.key, self.line);
        }
    }
}

fn key(preview: &Preview) -> Key {
    let port = preview.port();
    // Exposed anew it is another one: what was open before has ended.
    (port.sandbox_id, port.port, port.created_at.as_microsecond())
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that idles, or a new one.
    ///
    /// # Errors
    /// See [`NotConnected`].
    pub async fn get(&self, preview: &Preview) -> Result<Lent, NotConnected> {
        let key = key(preview);
        // What is paused goes on before anything is sent.
        let in_use = preview.begin().await?;
        while let Some(mut line) = self.take(key) {
            if let Ok(Ok(())) = timeout(READY, line.sender.ready()).await {
                let (body, pool) = (Weak::new(), self.clone());
                return Ok(Lent { line, used: true, body, key, pool, _in_use: in_use });
            }
        }
        self.connect(preview, in_use).await
    }

    /// A new connection.
    ///
    /// # Errors
    /// See [`NotConnected`].
    pub async fn fresh(&self, preview: &Preview) -> Result<Lent, NotConnected> {
        let in_use = preview.begin().await?;
        self.connect(preview, in_use).await
    }

    async fn connect(&self, preview: &Preview, in_use: Use) -> Result<Lent, NotConnected> {
        let way = preview.connect().await?;
        let is_direct = matches!(way, Way::Direct(_));
        let mut builder = Builder::new();
        builder.max_buf_size(READ).max_headers(HEADERS);
        let made = holm_http::handshake(&builder, way, READ).await;
        let (sender, connection) = made.map_err(|_| NotConnected::Unreachable)?;
        let task = tokio::spawn(async move {
            // Whoever waits for the answer sees an error too.
            let _ = connection.with_upgrades().await;
        });
        let line = Line { sender, is_direct, task: task.abort_handle() };
        let (body, key) = (Weak::new(), key(preview));
        Ok(Lent { line, used: false, body, key, pool: self.clone(), _in_use: in_use })
    }

    fn take(&self, key: Key) -> Option<Line> {
        let mut idle = self.lock();
        let of_port = idle.all.get_mut(&key)?;
        // The one that served last: it is the least likely to be closed.
        let found = of_port.pop();
        if of_port.is_empty() {
            idle.all.remove(&key);
        }
        let (since, line) = found?;
        idle.count -= 1;
        let is_good = since.elapsed() < IDLE && !line.sender.is_closed();
        drop(idle);
        if is_good { Some(line) } else { self.take(key) }
    }

    fn put(&self, key: Key, line: Line) {
        let mut idle = self.lock();
        if idle.count >= ALL {
            return;
        }
        let of_port = idle.all.entry(key).or_default();
        if of_port.len() >= EACH {
            return;
        }
        of_port.push((Instant::now(), line));
        idle.count += 1;
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(self.clone()));
        }
    }
}

/// Closes what idles for too long, for as long as anything idles.
async fn sweep(pool: Pool) {
    loop {
        sleep(IDLE / 2).await;
        let mut idle = pool.lock();
        let mut count = 0;
        idle.all.retain(|_, of_port| {
            of_port.retain(|(since, line)| since.elapsed() < IDLE && !line.sender.is_closed());
            count += of_port.len();
            !of_port.is_empty()
        });
        idle.count = count;
        if count == 0 {
            idle.is_swept = false;
            return;
        }
    }
}
