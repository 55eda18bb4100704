//! `/metrics`: what the service does, in Prometheus' text form. It names no account, no key and no
//! sandbox; it is for programs on this machine, and for keys that may administer the service.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holm_engine::{BOUNDS_MS, Durations, Engine, KeyScope};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request};

use super::access::Caller;
use super::door::Door;
use super::face::{Answering, Face};
use super::reply::{self, Response};
use super::server::Peer;
use super::trace::Collect;

/// Headers that only a proxy sends: what comes through one is not of this machine.
const FORWARDED: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// Requests by face and status, counted by the server.
#[derive(Debug, Default)]
pub struct Requests(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Requests {
    /// One more was answered.
    pub fn add(&self, face: &'static str, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((face, status)).or_default() += 1;
    }
}

/// A number that somebody else knows.
pub type Gauge = Box<dyn Fn() -> usize + Send + Sync>;

/// The face.
pub struct MetricsFace {
    engine: Engine,
    door: Arc<Door>,
    requests: Arc<Requests>,
    sessions: Gauge,
    traces: Option<Arc<dyn Collect>>,
}

impl MetricsFace {
    /// Shows what `engine` and the server's `requests` have counted, how many MCP sessions there
    /// are, and what became of spans where `traces` are collected.
    #[must_use]
    pub fn new(
        engine: Engine,
        door: Arc<Door>,
        requests: Arc<Requests>,
        sessions: Gauge,
        traces: Option<Arc<dyn Collect>>,
    ) -> Arc<Self> {
        Arc::new(Self { engine, door, requests, sessions, traces })
    }

    async fn respond(&self, head: &Parts) -> Response {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return reply::with(reply::text(405, "method not allowed\n"), "allow", "GET, HEAD");
        }
        // The door first, also for this machine: pages of foreign origins get no further.
        match self.door.enter(head).await {
            Ok(Caller::Known(caller)) if caller.may(KeyScope::Admin) => {}
            Ok(_) if is_local(head) => {}
            Err(why) if why.status() == 401 && is_local(head) && !has_credential(head) => {}
            Ok(_) => {
                let text = "metrics are for this machine, and for keys with the scope admin\n";
                return reply::text(403, text);
            }
            Err(why) => {
                return reply::json(why.status(), &serde_json::json!({"error": why.to_string()}));
            }
        }
        reply::plain(200, "text/plain; version=0.0.4; charset=utf-8", self.text())
    }

    fn text(&self) -> String {
        let metrics = self.engine.metrics();
        let mut page = Page::default();
        page.head("holm_sandboxes", "gauge", "Sandboxes on this node that are not over.");
        for (state, count) in &metrics.sandboxes {
            page.row(&format!("holm_sandboxes{{state=\"{state}\"}}"), count);
        }
        page.durations("holm_sandbox_create_seconds", "Creates that succeeded.", &metrics.creates);
        let help = "Creates that failed, by error kind.";
        page.head("holm_sandbox_create_failures_total", "counter", help);
        for (kind, count) in &metrics.create_failures {
            page.row(&format!("holm_sandbox_create_failures_total{{kind=\"{kind}\"}}"), count);
        }
        let network = &metrics.network;
        let help = "Bytes through sandboxes' networks, seen from them.";
        page.head("holm_network_bytes_total", "counter", help);
        page.row("holm_network_bytes_total{direction=\"out\"}", &network.bytes_out);
        page.row("holm_network_bytes_total{direction=\"in\"}", &network.bytes_in);
        let help = "Connections that sandboxes made, refused ones too.";
        page.head("holm_network_connections_total", "counter", help);
        page.row("holm_network_connections_total", &network.connections_total);
        page.head("holm_network_connections", "gauge", "Those that are open.");
        page.row("holm_network_connections", &network.connections_open);
        let help = "Connections and names that were refused to sandboxes.";
        page.head("holm_network_denied_total", "counter", help);
        page.row("holm_network_denied_total", &network.denied_total);
        page.head("holm_network_dns_queries_total", "counter", "Names that sandboxes asked for.");
        page.row("holm_network_dns_queries_total", &network.dns_queries);
        page.durations("holm_command_seconds", "Commands that ended.", &metrics.commands);
        page.head("holm_http_requests_total", "counter", "Requests answered, by face and status.");
        let requests = self.requests.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((face, status), count) in requests {
            let name = format!("holm_http_requests_total{{face=\"{face}\",status=\"{status}\"}}");
            page.row(&name, &count);
        }
        page.head("holm_mcp_sessions", "gauge", "MCP sessions.");
        page.row("holm_mcp_sessions", &(self.sessions)());
        if let Some(traces) = &self.traces {
            let counts = traces.counts();
            let help = "Spans that the collector has, and that nobody has.";
            page.head("holm_trace_spans_total", "counter", help);
            page.row("holm_trace_spans_total{result=\"sent\"}", &counts.sent);
            page.row("holm_trace_spans_total{result=\"dropped\"}", &counts.dropped);
        }
        if let Some(lag) = metrics.ledger_lag {
            let help = "Time since everything that runs was charged.";
            page.head("holm_ledger_lag_seconds", "gauge", help);
            page.row("holm_ledger_lag_seconds", &lag.as_secs_f64());
        }
        if let Some(bytes) = metrics.memory_bytes {
            page.head("process_resident_memory_bytes", "gauge", "Resident memory.");
            page.row("process_resident_memory_bytes", &bytes);
        }
        page.0
    }
}

/// True for requests of a program on this machine.
fn is_local(head: &Parts) -> bool {
    let peer = head.extensions.get::<Peer>().map(|peer| peer.0.ip());
    let loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    peer.is_some_and(loopback) && !FORWARDED.iter().any(|name| head.headers.contains_key(*name))
}

fn has_credential(head: &Parts) -> bool {
    ["authorization", "x-api-key"].iter().any(|name| head.headers.contains_key(*name))
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn row(&mut self, name: &str, value: &impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn durations(&mut self, name: &str, help: &str, durations: &Durations) {
        self.head(name, "histogram", help);
        for (bound, count) in BOUNDS_MS.iter().zip(durations.at_most) {
            let bound = Duration::from_millis(*bound).as_secs_f64();
            self.row(&format!("{name}_bucket{{le=\"{bound}\"}}"), &count);
        }
        self.row(&format!("{name}_bucket{{le=\"+Inf\"}}"), &durations.count);
        self.row(&format!("{name}_sum"), &durations.sum.as_secs_f64());
        self.row(&format!("{name}_count"), &durations.count);
    }
}

impl Face for MetricsFace {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn serves(&self, path: &str) -> bool {
        path == "/metrics"
    }

    fn is_traced(&self) -> bool {
        false
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let (head, _) = request.into_parts();
        Box::pin(async move { self.respond(&head).await })
    }

    fn refuse(&self) {}

    fn finish(&self) {}
}
