//! Spans: one for each request, one for each tool call in it. Whoever collects them gets what kind
//! of request it was, in which sandbox, how it went and how long it took: no key, no path of a file,
//! no command, no code.
//!
//! What happens below a request notes on its span what it learns ([`route`], [`sandbox`],
//! [`outcome`]). Where nobody collects there is no span, and notes cost nothing.

use std::sync::{Arc, Mutex, PoisonError};

use holm_engine::{SandboxId, random_bytes};
use hyper::{HeaderMap, Method};
use jiff::Timestamp;

/// Takes spans that are over. Must neither wait nor fail.
pub trait Collect: Send + Sync {
    /// One more.
    fn take(&self, span: Span);

    /// How many went on, and how many were dropped.
    fn counts(&self) -> Counts;
}

/// What became of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The collector has them.
    pub sent: u64,
    /// Nobody has them.
    pub dropped: u64,
}

/// A request, or a tool call in one, that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it is part of.
    pub trace_id: [u8; 16],
    /// Its own id.
    pub id: [u8; 8],
    /// The span around it, here or at the client.
    pub parent: Option<[u8; 8]>,
    /// Nanoseconds since 1970.
    pub began: i128,
    /// The same.
    pub ended: i128,
    /// What it was.
    pub what: What,
    /// The sandbox that it was about.
    pub sandbox: Option<SandboxId>,
    /// `ok`, `failed` for what ran and failed by itself, `gone` where the client did not wait, or
    /// the type of the error.
    pub outcome: &'static str,
}

/// What a span was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A request.
    Request {
        /// Its method, where it is a usual one.
        method: &'static str,
        /// Its path, with names in braces for what differs; nothing for paths that are none.
        route: Option<&'static str>,
        /// The status of its answer.
        status: Option<u16>,
        /// Its name in the log.
        request_id: Arc<str>,
    },
    /// A call of this tool.
    Call(&'static str),
}

/// A span that is not over: that is when nobody holds it any more.
pub struct Open {
    collect: Arc<dyn Collect>,
    span: Mutex<Span>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut span = self.span.get_mut().unwrap_or_else(PoisonError::into_inner).clone();
        span.ended = Timestamp::now().as_nanosecond();
        self.collect.take(span);
    }
}

tokio::task_local! {
    static CURRENT: Arc<Open>;
}

impl Open {
    /// The span of a request; nothing where its client does not want it to be traced.
    #[must_use]
    pub fn request(
        collect: &Arc<dyn Collect>,
        method: &Method,
        headers: &HeaderMap,
        request_id: Arc<str>,
    ) -> Option<Arc<Self>> {
        let (trace_id, parent) = match Parent::read(headers) {
            Some(Parent { is_sampled: false, .. }) => return None,
            Some(parent) => (parent.trace_id, Some(parent.span_id)),
            None => (random_bytes().ok()?, None),
        };
        let method = usual(method);
        let what = What::Request { method, route: None, status: None, request_id };
        Self::begin(Arc::clone(collect), trace_id, parent, what)
    }

    fn begin(
        collect: Arc<dyn Collect>,
        trace_id: [u8; 16],
        parent: Option<[u8; 8]>,
        what: What,
    ) -> Option<Arc<Self>> {
        let id = random_bytes().ok()?;
        let began = Timestamp::now().as_nanosecond();
        let (sandbox, outcome) = (None, "gone");
        let span = Span { trace_id, id, parent, began, ended: began, what, sandbox, outcome };
        Some(Arc::new(Self { collect, span: Mutex::new(span) }))
    }

    /// The answer is on its way.
    pub fn answered(&self, by: u16) {
        self.change(|span| {
            if let What::Request { status, .. } = &mut span.what {
                *status = Some(by);
            }
            if span.outcome == "gone" {
                span.outcome = if by < 400 { "ok" } else { "refused" };
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Span)) {
        change(&mut self.span.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs a request's work within its span.
pub async fn within<T>(span: Option<Arc<Open>>, work: impl Future<Output = T>) -> T {
    match span {
        Some(span) => CURRENT.scope(span, work).await,
        None => work.await,
    }
}

/// Work of a request that goes on in a task of its own.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    within(current(), work)
}

/// Runs a tool call within a span of its own; `judge` says how it went.
pub async fn call<T>(
    tool: &'static str,
    work: impl Future<Output = T>,
    judge: impl FnOnce(&T) -> &'static str,
) -> T {
    let Some(around) = current() else { return work.await };
    let (trace_id, parent) = {
        let span = around.span.lock().unwrap_or_else(PoisonError::into_inner);
        (span.trace_id, Some(span.id))
    };
    let span = Open::begin(Arc::clone(&around.collect), trace_id, parent, What::Call(tool));
    let result = within(span.clone(), work).await;
    if let Some(span) = span {
        span.change(|span| span.outcome = judge(&result));
        let sandbox = span.span.lock().unwrap_or_else(PoisonError::into_inner).sandbox;
        around.change(|around| around.sandbox = around.sandbox.or(sandbox));
    }
    result
}

/// Notes which path it is.
pub fn route(path: &'static str) {
    note(|span| {
        if let What::Request { route, .. } = &mut span.what {
            *route = Some(path);
        }
    });
}

/// Notes which sandbox it is about.
pub fn sandbox(id: SandboxId) {
    note(|span| span.sandbox = Some(id));
}

/// Notes how it went, where the status does not say it.
pub fn outcome(kind: &'static str) {
    note(|span| span.outcome = kind);
}

fn note(change: impl FnOnce(&mut Span)) {
    // Without a span there is nothing to note it on.
    let _ = CURRENT.try_with(|open| open.change(change));
}

fn current() -> Option<Arc<Open>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// A client may make up methods, and a name must not.
fn usual(method: &Method) -> &'static str {
    let usual = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    usual.into_iter().find(|name| method == name).unwrap_or("_OTHER")
}

/// What a client says about the trace that it is in (W3C `traceparent`).
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    is_sampled: bool,
}

impl Parent {
    fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have more behind it.
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags] = bytes::<1>(flags)?;
        let (trace_id, span_id) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let is_one = trace_id != [0; 16] && span_id != [0; 8];
        is_one.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// Bytes in lower-case hex digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let is_hex = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_name_the_trace_that_it_is_in() {
        let check = |text: &str, expected: Option<bool>| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().expect("a value"));
            let parent = Parent::read(&headers);
            assert_eq!(parent.as_ref().map(|parent| parent.is_sampled), expected, "{text}");
            if let Some(parent) = parent {
                assert_eq!((parent.trace_id[0], parent.span_id[7]), (0x0a, 0x31), "{text}");
            }
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        check(&format!("00-{trace}-{span}-01"), Some(true));
        check(&format!("00-{trace}-{span}-00"), Some(false));
        check(&format!("cc-{trace}-{span}-01-more"), Some(true));
        for wrong in [
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}-{span}"),
            String::new(),
        ] {
            check(&wrong, None);
        }
    }
}
