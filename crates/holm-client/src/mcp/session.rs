//! The session: begun when it is first needed, begun anew when the service has forgotten it.

use std::sync::atomic::{AtomicU64, Ordering};
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
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The newest revision with sessions.
const REVISION: &str = "2025-11-25";
/// The revision of requests without one.
const STATELESS: &str = "2026-07-28";
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
    /// The default sandbox, as far as its use shows it.
    default: Mutex<Option<String>>,
}

impl Live {
    fn default(&self) -> MutexGuard<'_, Option<String>> {
        // Every change under the lock is a single assignment: it is whole even after a panic.
        self.default.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the result of a call.
    fn note(&self, tool: &Tool, result: &Value) {
        let Some(id) = result["structuredContent"]["sandbox_id"].as_str() else { return };
        let mut default = self.default();
        if tool.destroys {
            default.take_if(|default| default == id);
        } else if tool.uses_default || tool.makes_default {
            *default = Some(id.to_owned());
        }
    }
}

/// What a call means for the default sandbox.
struct Tool {
    uses_default: bool,
    makes_default: bool,
    destroys: bool,
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
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let tool = Tool {
            uses_default,
            makes_default: name == "create_sandbox",
            destroys: matches!(name, "destroy_sandbox" | "kill_sandbox"),
        };
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
            live.note(&tool, &result);
            break result;
        };
        if tool.makes_default && result["isError"] != true {
            self.state().lost_default = false;
        }
        Ok(result)
    }

    /// The tools of the service, as it lists them. Takes no session: clients ask for tools that
    /// they may never use.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn tools(&self) -> Result<Vec<Value>, Failure> {
        let mut tools = Vec::new();
        let mut params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": self.info,
        }});
        for _ in 0..PAGES {
            let id = self.fresh_id();
            let body =
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params});
            let request = Self::request(&body, Some(QUICK))
                .with(VERSION, HeaderValue::from_static(STATELESS))
                .with(METHOD, HeaderValue::from_static("tools/list"));
            let response = self.client.send(request).await?;
            let mut page = reply::read(response, id, &|_| {}).await?;
            let Value::Array(items) = page["tools"].take() else { return Err(no_list()) };
            tools.extend(items);
            match page["nextCursor"].take() {
                Value::String(cursor) => params["cursor"] = cursor.into(),
                _ => return Ok(tools),
            }
        }
        Err(no_list())
    }

    /// Says that the session is still wanted.
    async fn ping(&self, live: &Arc<Live>) -> Result<(), Failure> {
        let id = self.fresh_id();
        let response = self.post(Some(live), id, "ping", json!({}), Some(QUICK)).await?;
        if response.status == 404 {
            self.forget(live);
        }
        reply::read(response, id, &|_| {}).await.map(|_| ())
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
        let live = Arc::new(Live { id: session, default: Mutex::default() });
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
        let mut request = Self::request(body, within);
        if let Some(live) = live {
            request = request.with(VERSION, HeaderValue::from_static(REVISION));
            if let Some(id) = &live.id {
                request = request.with(SESSION, id.clone());
            }
        }
        self.client.send(request).await
    }

    fn request(body: &Value, within: Option<Duration>) -> Request {
        let mut request = Request::new(Method::POST, PATH);
        request.repeat = Repeat::Untaken;
        request.head_within = within;
        request.body = body.to_string().into();
        let both = HeaderValue::from_static("application/json, text/event-stream");
        request.with(CONTENT_TYPE, HeaderValue::from_static("application/json")).with(ACCEPT, both)
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
        state.lost_default |= live.default().take().is_some();
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

/// Keeps a session from ending while its client has nothing to ask.
async fn keep(endpoint: Weak<Endpoint>, live: Weak<Live>) {
    loop {
        let wait = {
            let (Some(endpoint), Some(live)) = (endpoint.upgrade(), live.upgrade()) else { return };
            let idle = endpoint.state().used.map(|used| used.elapsed()).unwrap_or_default();
            match KEEP.checked_sub(idle) {
                Some(rest) if !rest.is_zero() => rest,
                _ => {
                    if let Err(failure) = endpoint.ping(&live).await {
                        tracing::debug!(?failure, "the session could not be kept");
                    }
                    KEEP
                }
            }
        };
        sleep(wait).await;
    }
}
