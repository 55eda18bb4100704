//! The session: begun when it is first needed, begun anew when the service has forgotten it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::{Instant, sleep};

use super::reply::{self, Failure};
use crate::client::{Client, Repeat, Request};
use crate::error::{Error, ErrorKind};
use crate::response::Response;

const PATH: &str = "/v1/mcp";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The newest revision with sessions.
const REVISION: &str = "2025-11-25";
/// Bound of what is answered at once.
const QUICK: Duration = Duration::from_secs(30);
/// Idle sessions end after an hour; this one is kept for as long as its client is there.
const KEEP: Duration = Duration::from_secs(15 * 60);
/// Pages of a list at most.
const PAGES: usize = 20;

/// Dropped when the service has taken a call, so that the next one may follow: calls without a
/// sandbox are about the default that counted when they were made.
pub type Taken = oneshot::Sender<()>;

/// A tool call.
pub struct Call {
    /// `params` of `tools/call`.
    pub params: Map<String, Value>,
    /// True where it names no sandbox and so uses the session's.
    pub uses_default: bool,
    /// See [`Taken`].
    pub taken: Taken,
}

/// The endpoint of one service, for one client.
pub struct Endpoint {
    client: Client,
    info: Value,
    state: Mutex<State>,
    /// Held while a session is begun or ended.
    opening: AsyncMutex<()>,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    current: Option<Arc<Live>>,
    closed: bool,
    /// A session with a default sandbox was lost, and its client does not know yet.
    lost_default: bool,
    used: Option<Instant>,
}

/// A session that the service knows, as far as is known here.
struct Live {
    /// None at services that need none.
    id: Option<HeaderValue>,
    has_default: AtomicBool,
}

impl Endpoint {
    /// An endpoint; nothing is sent yet. `name` and `version` are what the service hears of this
    /// program.
    #[must_use]
    pub fn new(client: Client, name: &str, version: &str) -> Arc<Self> {
        Arc::new(Self {
            client,
            info: json!({"name": name, "version": version}),
            state: Mutex::default(),
            opening: AsyncMutex::default(),
            next: AtomicU64::new(1),
        })
    }

    /// Calls a tool; its result. `progress` hears the parameters of progress notifications.
    /// Dropping the future stops the call at the service.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn call(
        self: &Arc<Self>,
        call: Call,
        progress: &(dyn Fn(Map<String, Value>) + Send + Sync),
    ) -> Result<Value, Failure> {
        let Call { mut params, uses_default, taken } = call;
        let makes_default = params.get("name").is_some_and(|name| name == "create_sandbox");
        let id = self.fresh_id();
        // Asked for always: it tells that the call was taken, and keeps what stands between from
        // taking it for dead.
        params.insert("_meta".to_owned(), with_token(params.get("_meta"), id));
        let mut taken = Some(taken);
        let mut again = false;
        let result = loop {
            let live = self.live().await?;
            if uses_default && self.tell_lost() {
                return Err(Failure::DefaultLost);
            }
            let response = self.post(Some(&live), id, "tools/call", &params, None).await?;
            drop(taken.take());
            if response.status == 404 && live.id.is_some() {
                self.forget(&live);
                if !again {
                    again = true;
                    continue;
                }
            }
            let result = reply::read(response, id, progress).await?;
            if (uses_default || makes_default)
                && result["structuredContent"]["sandbox_id"].is_string()
            {
                live.has_default.store(true, Ordering::SeqCst);
            }
            break result;
        };
        if makes_default && result["isError"] != true {
            self.state().lost_default = false;
        }
        Ok(result)
    }

    /// The tools of the service, as it lists them.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn tools(self: &Arc<Self>) -> Result<Vec<Value>, Failure> {
        let mut tools = Vec::new();
        let mut params = Map::new();
        for _ in 0..PAGES {
            let mut page = self.ask("tools/list", &params).await?;
            let Value::Array(items) = page["tools"].take() else { return Err(no_list()) };
            tools.extend(items);
            match page["nextCursor"].take() {
                Value::String(cursor) => params.insert("cursor".to_owned(), cursor.into()),
                _ => return Ok(tools),
            };
        }
        Err(no_list())
    }

    /// A quick request in the session, which is begun anew if it was forgotten.
    async fn ask(
        self: &Arc<Self>,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Value, Failure> {
        let mut again = false;
        loop {
            let live = self.live().await?;
            let id = self.fresh_id();
            let response = self.post(Some(&live), id, method, params, Some(QUICK)).await?;
            if response.status == 404 && live.id.is_some() {
                self.forget(&live);
                if !again {
                    again = true;
                    continue;
                }
            }
            return reply::read(response, id, &|_| {}).await;
        }
    }

    /// Ends the session: the service destroys its sandboxes. No call may be running. Waits for a
    /// session that is being begun. The caller bounds it.
    pub async fn close(&self) {
        self.state().closed = true;
        let _ended = self.opening.lock().await;
        let live = self.state().current.take();
        let Some(id) = live.and_then(|live| live.id.clone()) else { return };
        let mut request = Request::new(Method::DELETE, PATH).with(SESSION, id);
        request = request.with(VERSION, HeaderValue::from_static(REVISION));
        match self.client.send(request).await {
            Ok(answer) => tracing::debug!(status = answer.status, "the session was ended"),
            Err(error) => tracing::warn!(
                %error,
                "the session could not be ended; its sandboxes live until their time ends"
            ),
        }
    }

    /// The session; begun now where there is none. Who stops waiting stops nothing: a session that
    /// the service has begun must become known here.
    async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Failure> {
        if let Some(live) = self.used() {
            return Ok(live);
        }
        let this = Arc::clone(self);
        let opening = tokio::spawn(async move {
            let _one = this.opening.lock().await;
            if let Some(live) = this.used() {
                return Ok(live);
            }
            if this.state().closed {
                return Err(Failure::Closed);
            }
            this.open().await
        });
        opening.await.unwrap_or(Err(Failure::Closed))
    }

    async fn open(self: &Arc<Self>) -> Result<Arc<Live>, Failure> {
        let params =
            json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": self.info});
        let id = self.fresh_id();
        let response = self.post(None, id, "initialize", &params, Some(QUICK)).await?;
        let session = response.headers.get(SESSION).cloned();
        reply::read(response, id, &|_| {}).await?;
        let live = Arc::new(Live { id: session, has_default: AtomicBool::new(false) });
        {
            let mut state = self.state();
            state.current = Some(Arc::clone(&live));
            state.used = Some(Instant::now());
        }
        tokio::spawn(keep(Arc::downgrade(self), Arc::downgrade(&live)));
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        match self.send(Some(&live), &told, Some(QUICK)).await {
            Ok(mut answer) => drop(answer.bytes(1 << 10, QUICK).await),
            // The session is there without it.
            Err(error) => tracing::debug!(%error, "the service was not told that all is ready"),
        }
        Ok(live)
    }

    async fn post(
        &self,
        live: Option<&Live>,
        id: u64,
        method: &str,
        params: impl serde::Serialize,
        within: Option<Duration>,
    ) -> Result<Response, Failure> {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Ok(self.send(live, &body, within).await?)
    }

    async fn send(
        &self,
        live: Option<&Live>,
        body: &Value,
        within: Option<Duration>,
    ) -> Result<Response, Error> {
        let mut request = Request::new(Method::POST, PATH);
        request.repeat = Repeat::Untaken;
        request.head_within = within;
        request.body = body.to_string().into();
        let headers = &mut request.headers;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, both);
        if let Some(live) = live {
            headers.insert(VERSION, HeaderValue::from_static(REVISION));
            if let Some(id) = &live.id {
                headers.insert(SESSION, id.clone());
            }
        }
        self.client.send(request).await
    }

    fn fresh_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change under the lock is a single assignment: it is whole even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session that is known, which is used now.
    fn used(&self) -> Option<Arc<Live>> {
        let mut state = self.state();
        state.used = Some(Instant::now());
        state.current.clone()
    }

    /// The service does not know this session any more.
    fn forget(&self, live: &Arc<Live>) {
        tracing::warn!("the service has forgotten the session; a new one begins");
        let mut state = self.state();
        if state.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            state.current = None;
        }
        state.lost_default |= live.has_default.swap(false, Ordering::SeqCst);
    }

    /// True once after a default sandbox was lost.
    fn tell_lost(&self) -> bool {
        std::mem::take(&mut self.state().lost_default)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Endpoint").field(&self.client).finish()
    }
}

fn no_list() -> Failure {
    Error::new(ErrorKind::Protocol, "the service's list of tools is none").into()
}

/// The `_meta` of a request that asks for progress under `token`.
fn with_token(meta: Option<&Value>, token: u64) -> Value {
    let mut meta = meta.and_then(Value::as_object).cloned().unwrap_or_default();
    meta.insert("progressToken".to_owned(), token.into());
    Value::Object(meta)
}

/// Keeps a session from ending while its client has nothing to ask. Boxed, because it may begin a
/// session, which starts another one of these.
fn keep(endpoint: Weak<Endpoint>, live: Weak<Live>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        loop {
            let wait = {
                let (Some(endpoint), Some(_)) = (endpoint.upgrade(), live.upgrade()) else {
                    return;
                };
                let idle = endpoint.state().used.map(|used| used.elapsed()).unwrap_or_default();
                match KEEP.checked_sub(idle) {
                    Some(rest) if !rest.is_zero() => rest,
                    _ => {
                        if let Err(failure) = endpoint.ask("ping", &Map::new()).await {
                            tracing::debug!(?failure, "the session could not be kept");
                        }
                        KEEP
                    }
                }
            };
            sleep(wait).await;
        }
    })
}
