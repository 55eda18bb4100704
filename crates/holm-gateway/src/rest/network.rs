//! The network of a sandbox: what it may reach, what has gone through, what was refused.

use holm_engine::{Denial, ErrorKind, KeyScope, NetworkView, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Json, NoQuery, Nothing, Object};
use super::output::Answer;
use super::policy::{Policy, PolicyShown};
use super::text::{maybe_time_schema, time_schema};
use crate::show::time;

const PATH: &str = "/v1/sandboxes/{sandbox_id}/network";

/// What a sandbox may reach from now on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSet {
    /// Its policy.
    pub network: Policy,
}

impl Object for NetworkSet {}

/// The network of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Network {
    /// What it may reach, as far as its account may.
    pub network: PolicyShown,
    /// What its account may reach at most; null for everything that the service permits.
    pub ceiling: Option<PolicyShown>,
    /// Whether there is a way out for it at all. False where this host gives none, and for a
    /// sandbox that is over.
    pub attached: bool,
    /// Bytes that it has sent since it was made.
    pub bytes_out: u64,
    /// Bytes that it was sent.
    pub bytes_in: u64,
    /// Connections that it made since it was made, refused ones too.
    pub connections: u64,
    /// Those that are open.
    pub connections_open: u64,
    /// Connections and names that were refused since it was made.
    pub denied: u64,
    /// Those since `denials_since` that came too fast to be among the denials.
    pub denied_unlogged: u64,
    /// Names that it asked for since it was made.
    pub dns_queries: u64,
    /// What was refused since `denials_since`: the newest hundred, newest last. Null for a
    /// sandbox that is over, of which they are not kept.
    pub denials: Option<Vec<Refused>>,
    /// Since when the service notes what is refused: its start, or that of the sandbox. Null where
    /// it does not.
    #[schemars(schema_with = "maybe_time_schema")]
    pub denials_since: Option<String>,
}

/// Something that was refused.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NetworkDenial")]
pub struct Refused {
    /// When; of several alike, the last one.
    #[schemars(schema_with = "time_schema")]
    pub at: String,
    /// How many alike came one after the other.
    #[schemars(extend("minimum" = 1))]
    pub times: u64,
    /// The name that was asked for, where one is known.
    pub name: Option<String>,
    /// The address, where it is about one.
    pub address: Option<String>,
    /// The port.
    pub port: u16,
    /// A connection, or a name.
    #[schemars(extend("enum" = ["tcp", "dns"]))]
    pub protocol: &'static str,
    /// The rule that refused it.
    pub rule: String,
}

impl From<Denial> for Refused {
    fn from(denial: Denial) -> Self {
        Self {
            at: time(denial.at),
            times: denial.times,
            name: denial.name,
            address: denial.address.map(|address| address.to_string()),
            port: denial.port,
            protocol: denial.protocol.as_str(),
            rule: denial.rule,
        }
    }
}

impl From<NetworkView> for Network {
    fn from(view: NetworkView) -> Self {
        let counters = view.state.as_ref().map(|state| state.counters).unwrap_or_default();
        let (ceiling, attached, denials, since) = match view.state {
            Some(state) => {
                let denials = state.denials.into_iter().map(Refused::from).collect();
                (state.ceiling, state.attached, Some(denials), state.denials_since)
            }
            None => (None, false, None, None),
        };
        Self {
            network: view.policy.into(),
            ceiling: ceiling.map(PolicyShown::from),
            attached,
            bytes_out: view.traffic.bytes_out,
            bytes_in: view.traffic.bytes_in,
            connections: view.traffic.connections,
            connections_open: counters.connections_open,
            denied: view.traffic.denied,
            denied_unlogged: counters.denied_unlogged,
            dns_queries: view.traffic.dns_queries,
            denials,
            denials_since: since.map(time),
        }
    }
}

/// The endpoints of networks.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let get_about = About {
        id: "network_get",
        tag: "sandboxes",
        summary: "Look at a sandbox's network",
        description: "What it may reach, what has gone through, and what was refused and why.",
        scope: Some(KeyScope::Read),
        errors: &[ErrorKind::NotFound],
        headers: &[],
    };
    let set_about = About {
        id: "network_set",
        summary: "Set what a sandbox may reach",
        description: "From now on; connections that the new policy does not permit are closed. \
            Recorded before it is in force, so that it holds over a restart of the service.",
        scope: Some(KeyScope::Sandboxes),
        errors: &[ErrorKind::NotFound, ErrorKind::SandboxGone, ErrorKind::IsolationUnavailable],
        ..get_about
    };
    vec![
        Endpoint::new(Method::GET, PATH, get_about, get),
        Endpoint::new(Method::PUT, PATH, set_about, set),
    ]
}

async fn get(call: Call<SandboxId, NoQuery, Nothing>) -> Result<Answer<Network>, Failure> {
    Ok(Answer(call.engine.network_get(&call.id).await?.into()))
}

async fn set(call: Call<SandboxId, NoQuery, Json<NetworkSet>>) -> Result<Answer<Network>, Failure> {
    Ok(Answer(call.engine.network_set(&call.id, call.body.0.network.0).await?.into()))
}
