//! The audit log, for administrators.

use holm_engine::{AccountId, AuditEvent, KeyId, KeyScope, Outcome};
use hyper::Method;
use schemars::{JsonSchema, json_schema};
use serde::Serialize;
use serde_json::Value;

use super::accounts::page_query;
use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Nothing, id};
use super::keys::OfAccount;
use super::output::Answer;
use super::text::{account_id_schema, key_id_schema, time_schema};
use crate::show::time;

/// Who did what to what, and what came of it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditEvent")]
pub struct Event {
    /// Its id.
    pub id: String,
    /// When.
    #[schemars(schema_with = "time_schema")]
    pub at: String,
    /// Whose key it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "account_id_schema")]
    pub account_id: Option<AccountId>,
    /// Which key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "key_id_schema")]
    pub key_id: Option<KeyId>,
    /// What was done, such as `sandbox.create`.
    pub action: String,
    /// To what.
    pub target: Option<String>,
    /// What came of it.
    #[schemars(schema_with = "outcome_schema")]
    pub outcome: &'static str,
    /// More about it.
    pub detail: Value,
}

fn outcome_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({"type": "string", "enum": Outcome::ALL.map(Outcome::as_str)})
}

/// A page of the audit log, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditLog {
    /// The events.
    pub events: Vec<Event>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl From<AuditEvent> for Event {
    fn from(event: AuditEvent) -> Self {
        Self {
            id: event.id.to_string(),
            at: time(event.at),
            account_id: event.account_id,
            key_id: event.key_id,
            action: event.action,
            target: event.target,
            outcome: event.outcome.as_str(),
            detail: event.detail,
        }
    }
}

/// The endpoint of the audit log.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = About {
        id: "audit_list",
        tag: "admin",
        summary: "List audit events",
        description: "One account's, or all, newest first.",
        scope: Some(KeyScope::Admin),
        errors: &[],
        headers: &[],
    };
    vec![Endpoint::new(Method::GET, "/v1/audit", about, list)]
}

async fn list(call: Call<Fixed, OfAccount, Nothing>) -> Result<Answer<AuditLog>, Failure> {
    let OfAccount { account_id, limit, cursor } = call.query;
    let account = account_id.as_deref().map(id).transpose()?;
    let page = call.engine.audit_list(account, page_query(limit, cursor)?).await?;
    Ok(Answer(AuditLog {
        events: page.items.into_iter().map(Event::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}
