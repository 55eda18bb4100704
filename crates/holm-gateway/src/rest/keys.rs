//! API keys, for administrators.

use std::collections::BTreeSet;

use holm_engine::{AccountId, ErrorKind, Key, KeyId, KeyScope, NewKey};
use hyper::Method;
use jiff::Timestamp;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

use super::accounts::page_query;
use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Json, NoQuery, Nothing, Object, id};
use super::number::Whole;
use super::output::{Answer, Made};
use super::text::{CURSOR, NAME, account_id_schema, key_id_schema, maybe_time_schema, time_schema};
use crate::show::time;

/// What a key may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Scope {
    /// Look at the account's sandboxes and usage.
    Read,
    /// Create, use, extend and destroy sandboxes.
    Sandboxes,
    /// Manage accounts, keys and balances of the whole service.
    Admin,
}

impl From<Scope> for KeyScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Sandboxes => Self::Sandboxes,
            Scope::Admin => Self::Admin,
        }
    }
}

/// A key to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyCreate {
    /// Whose it will be.
    #[schemars(schema_with = "account_id_schema")]
    pub account_id: String,
    /// What people call it.
    #[schemars(length(min = 1, max = 64), extend("pattern" = NAME))]
    pub name: String,
    /// What it may do (default: read and sandboxes).
    #[schemars(length(min = 1))]
    pub scopes: Option<BTreeSet<Scope>>,
    /// From when on it is refused (RFC 3339); in the future.
    #[serde(default)]
    #[schemars(schema_with = "maybe_time_schema")]
    pub expires_at: Option<String>,
}

impl Object for KeyCreate {}

/// What is kept of a key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub struct KeyShown {
    /// Its id.
    #[schemars(schema_with = "key_id_schema")]
    pub id: KeyId,
    /// Whose it is.
    #[schemars(schema_with = "account_id_schema")]
    pub account_id: AccountId,
    /// What people call it.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// What it may do.
    #[schemars(schema_with = "scopes_schema")]
    pub scopes: Vec<&'static str>,
    /// Whether it works.
    #[schemars(extend("enum" = ["active", "expired", "revoked"]))]
    pub status: &'static str,
    /// When it was made.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// From when on it is refused.
    #[schemars(schema_with = "maybe_time_schema")]
    pub expires_at: Option<String>,
    /// When it was last used, to about a minute.
    #[schemars(schema_with = "maybe_time_schema")]
    pub last_used_at: Option<String>,
    /// When it was revoked.
    #[schemars(schema_with = "maybe_time_schema")]
    pub revoked_at: Option<String>,
}

fn scopes_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = KeyScope::ALL.map(KeyScope::as_str);
    json_schema!({"type": "array", "items": {"type": "string", "enum": names}})
}

/// A key that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyMade {
    /// The key itself. It is kept nowhere, so this is the only time that it is shown.
    pub secret: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub key: KeyShown,
}

/// Which keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OfAccount {
    /// Only this account's (default: all).
    #[schemars(schema_with = "account_id_schema")]
    pub account_id: Option<String>,
    /// How many at most (default: 100).
    pub limit: Option<Whole<1, 1000>>,
    /// `next_cursor` of the page before.
    #[schemars(extend("pattern" = CURSOR))]
    pub cursor: Option<String>,
}

/// A page of keys, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct KeyList {
    /// The keys.
    pub keys: Vec<KeyShown>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl From<Key> for KeyShown {
    fn from(key: Key) -> Self {
        let status = key.status(Timestamp::now()).as_str();
        Self {
            id: key.id,
            account_id: key.account_id,
            name: key.name,
            prefix: key.prefix,
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            status,
            created_at: time(key.created_at),
            expires_at: key.expires_at.map(time),
            last_used_at: key.last_used_at.map(time),
            revoked_at: key.revoked_at.map(time),
        }
    }
}

/// The endpoints of keys.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description, errors| About {
        id,
        tag: "admin",
        summary,
        description,
        scope: Some(KeyScope::Admin),
        errors,
        headers: &[],
    };
    let unknown = &[ErrorKind::NotFound][..];
    let create_about = about(
        "key_create",
        "Make a key",
        "The answer is the only time that the key itself is shown.",
        unknown,
    );
    let list_about = about("key_list", "List keys", "One account's, or all, newest first.", &[]);
    let revoke_about = about(
        "key_revoke",
        "Revoke a key",
        "From now on and for good. What runs already goes on.",
        unknown,
    );
    vec![
        Endpoint::new(Method::POST, "/v1/keys", create_about, create),
        Endpoint::new(Method::GET, "/v1/keys", list_about, list),
        Endpoint::new(Method::DELETE, "/v1/keys/{key_id}", revoke_about, revoke),
    ]
}

async fn create(call: Call<Fixed, NoQuery, Json<KeyCreate>>) -> Result<Made<KeyMade>, Failure> {
    let KeyCreate { account_id, name, scopes, expires_at } = call.body.0;
    let mut wanted = NewKey::new(id(&account_id)?, name);
    if let Some(scopes) = scopes {
        wanted.scopes = scopes.into_iter().map(KeyScope::from).collect();
    }
    let read = |text: String| {
        text.parse::<Timestamp>().map_err(|_| {
            Failure::invalid("`expires_at` must be a time such as 2030-01-01T00:00:00Z")
        })
    };
    wanted.expires_at = expires_at.map(read).transpose()?;
    let made = call.engine.key_create(wanted).await?;
    Ok(Made(KeyMade { secret: made.text.reveal().to_owned(), key: made.key.into() }))
}

async fn list(call: Call<Fixed, OfAccount, Nothing>) -> Result<Answer<KeyList>, Failure> {
    let OfAccount { account_id, limit, cursor } = call.query;
    let account = account_id.as_deref().map(id).transpose()?;
    let page = call.engine.key_list(account, page_query(limit, cursor)?).await?;
    Ok(Answer(KeyList {
        keys: page.items.into_iter().map(KeyShown::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

async fn revoke(call: Call<KeyId, NoQuery, Nothing>) -> Result<Answer<KeyShown>, Failure> {
    Ok(Answer(call.engine.key_revoke(call.id).await?.into()))
}
