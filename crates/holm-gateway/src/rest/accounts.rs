//! Accounts and their money, for administrators.

use std::time::Duration;

use holm_engine::{
    Account, AccountChange, AccountId, AccountLimits, EntryKind, ErrorKind, KeyScope, NewAccount,
    PageQuery,
};
use hyper::Method;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Fixed, Json, NoQuery, Nothing, Object};
use super::number::Whole;
use super::output::{Answer, Made};
use super::policy::{Policy, PolicyShown};
use super::sandboxes::after;
use super::text::{
    CURSOR, NAME, account_id_schema, maybe_time_schema, micros, sandbox_id_schema, time_schema,
};
use crate::show::{time, units};

/// Most units of one payment.
const MAX_AMOUNT: f64 = 1e9;

/// An account to make.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountCreate {
    /// What people call it; two may have the same name.
    #[schemars(length(min = 1, max = 64), extend("pattern" = NAME))]
    pub name: String,
    /// Sandboxes at once (default: the service's limit).
    pub max_sandboxes: Option<Whole<0, 1_000_000>>,
    /// Longest life of a sandbox (default: the service's limit).
    pub max_lifetime_minutes: Option<Whole<1, 1440>>,
    /// What its sandboxes may reach at most (default: what the service permits).
    pub network: Option<Policy>,
}

impl Object for AccountCreate {}

/// Other limits for an account: a field that is there counts, also when it is null, which is the
/// service's own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccountUpdate {
    /// Sandboxes at once.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<Whole<0, 1_000_000>>")]
    pub max_sandboxes: Option<Option<Whole<0, 1_000_000>>>,
    /// Longest life of a sandbox.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<Whole<1, 1440>>")]
    pub max_lifetime_minutes: Option<Option<Whole<1, 1440>>>,
    /// What its sandboxes may reach at most, those that run too.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<Policy>")]
    pub network: Option<Option<Policy>>,
}

impl Object for AccountUpdate {}

/// A field that is there, whatever it is.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// An account.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Account")]
pub struct AccountShown {
    /// Its id.
    #[schemars(schema_with = "account_id_schema")]
    pub id: AccountId,
    /// What people call it.
    pub name: String,
    /// When it was made.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
    /// Sandboxes at once; null for the service's limit.
    pub max_sandboxes: Option<u32>,
    /// Longest life of a sandbox; null for the service's limit.
    pub max_lifetime_minutes: Option<u64>,
    /// What its sandboxes may reach at most; null for what the service permits.
    pub network: Option<PolicyShown>,
    /// When it was disabled.
    #[schemars(schema_with = "maybe_time_schema")]
    pub disabled_at: Option<String>,
    /// What it has. Only for a single one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<f64>,
}

/// A page of accounts, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccountList {
    /// The accounts.
    pub accounts: Vec<AccountShown>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Which part of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PageOf {
    /// How many at most (default: 100).
    pub limit: Option<Whole<1, 1000>>,
    /// `next_cursor` of the page before.
    #[schemars(extend("pattern" = CURSOR))]
    pub cursor: Option<String>,
}

impl PageOf {
    /// As the engine takes it.
    ///
    /// # Errors
    /// When the cursor is none.
    pub fn query(self) -> Result<PageQuery, Failure> {
        page_query(self.limit, self.cursor)
    }
}

/// A part of a list, as the engine takes it.
///
/// # Errors
/// When the cursor is none.
pub fn page_query(
    limit: Option<Whole<1, 1000>>,
    cursor: Option<String>,
) -> Result<PageQuery, Failure> {
    let limit = limit.and_then(|limit| u32::try_from(limit.0).ok()).unwrap_or(100);
    Ok(PageQuery { limit, after: after(cursor)? })
}

/// A payment.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountTopup {
    /// How much, in units of the currency, to a millionth.
    #[schemars(range(min = 0.000_001, max = 1_000_000_000.0))]
    pub amount: f64,
    /// Your own mark for it, such as an invoice's number: the same mark with the same amount counts
    /// once.
    #[schemars(length(min = 1, max = 255), extend("pattern" = NAME))]
    pub reference: Option<String>,
}

impl Object for AccountTopup {}

/// A line of the ledger.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LedgerEntry")]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Whose money.
    #[schemars(schema_with = "account_id_schema")]
    pub account_id: AccountId,
    /// Its place in the account's ledger: 1, 2, 3 … without a gap.
    pub number: i64,
    /// Why money moved.
    #[schemars(schema_with = "kind_schema")]
    pub kind: &'static str,
    /// How much; below zero is what the account pays.
    pub amount: f64,
    /// What the account had after it.
    pub balance_after: f64,
    /// Which sandbox it pays for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: Option<holm_engine::SandboxId>,
    /// From when on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub from: Option<String>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "time_schema")]
    pub to: Option<String>,
    /// The payer's own mark.
    pub reference: Option<String>,
    /// When it was written.
    #[schemars(schema_with = "time_schema")]
    pub created_at: String,
}

/// A page of the ledger, newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ledger {
    /// The entries.
    pub entries: Vec<Entry>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
}

fn kind_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": EntryKind::ALL.map(EntryKind::as_str)})
}

impl From<Account> for AccountShown {
    fn from(account: Account) -> Self {
        Self {
            id: account.id,
            name: account.name,
            created_at: time(account.created_at),
            max_sandboxes: account.limits.max_sandboxes,
            max_lifetime_minutes: account.limits.max_lifetime.map(|life| life.as_secs() / 60),
            network: account.limits.network.map(PolicyShown),
            disabled_at: account.disabled_at.map(time),
            balance: None,
        }
    }
}

impl From<holm_engine::Entry> for Entry {
    fn from(entry: holm_engine::Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            account_id: entry.account_id,
            number: entry.number,
            kind: entry.kind.as_str(),
            amount: units(entry.amount),
            balance_after: units(entry.balance_after),
            sandbox_id: entry.usage.map(|usage| usage.sandbox_id),
            from: entry.usage.map(|usage| time(usage.from)),
            to: entry.usage.map(|usage| time(usage.to)),
            reference: entry.reference,
            created_at: time(entry.created_at),
        }
    }
}

/// The endpoints of accounts.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/v1/accounts/{account_id}";
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
    let create_about =
        about("account_create", "Make an account", "Give it a key with `POST /v1/keys`.", &[]);
    let list_about = about("account_list", "List accounts", "Newest first.", &[]);
    let get_about = About {
        scope: Some(KeyScope::Read),
        ..about(
            "account_get",
            "Look at an account",
            "With its balance. Your own with any key that may read; any with `admin`.",
            unknown,
        )
    };
    let update_about = about(
        "account_update",
        "Give an account other limits",
        "What it has already stays; what its sandboxes may reach counts for those that run, too.",
        unknown,
    );
    let topup_about = about(
        "account_topup",
        "Pay in",
        "The same reference with the same amount counts once.",
        &[ErrorKind::NotFound, ErrorKind::Conflict],
    );
    let ledger_about = About {
        scope: Some(KeyScope::Read),
        ..about(
            "ledger_list",
            "List an account's ledger",
            "Where its money came from and went to, newest first. Your own with any key that may \
             read; any with `admin`.",
            unknown,
        )
    };
    vec![
        Endpoint::new(Method::POST, "/v1/accounts", create_about, create),
        Endpoint::new(Method::GET, "/v1/accounts", list_about, list),
        Endpoint::new(Method::GET, ONE, get_about, get),
        Endpoint::new(Method::PATCH, ONE, update_about, update),
        Endpoint::new(Method::POST, "/v1/accounts/{account_id}/topup", topup_about, topup),
        Endpoint::new(Method::GET, "/v1/accounts/{account_id}/ledger", ledger_about, ledger),
    ]
}

async fn create(
    call: Call<Fixed, NoQuery, Json<AccountCreate>>,
) -> Result<Made<AccountShown>, Failure> {
    let AccountCreate { name, max_sandboxes, max_lifetime_minutes, network } = call.body.0;
    let limits = AccountLimits {
        max_sandboxes: max_sandboxes.and_then(|count| u32::try_from(count.0).ok()),
        max_lifetime: max_lifetime_minutes.map(|life| Duration::from_secs(life.0 * 60)),
        network: network.map(|policy| policy.0.to_json()),
    };
    Ok(Made(call.engine.account_create(NewAccount { name, limits }).await?.into()))
}

async fn list(call: Call<Fixed, PageOf, Nothing>) -> Result<Answer<AccountList>, Failure> {
    let page = call.engine.account_list(call.query.query()?).await?;
    Ok(Answer(AccountList {
        accounts: page.items.into_iter().map(AccountShown::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

async fn get(call: Call<AccountId, NoQuery, Nothing>) -> Result<Answer<AccountShown>, Failure> {
    let account = call.engine.account_get(call.id).await?;
    let balance = call.engine.account_balance(call.id).await?;
    Ok(Answer(AccountShown { balance: Some(units(balance)), ..account.into() }))
}

async fn update(
    call: Call<AccountId, NoQuery, Json<AccountUpdate>>,
) -> Result<Answer<AccountShown>, Failure> {
    let AccountUpdate { max_sandboxes, max_lifetime_minutes, network } = call.body.0;
    let count = |count: Whole<0, 1_000_000>| u32::try_from(count.0).ok();
    let change = AccountChange {
        max_sandboxes: max_sandboxes.map(|limit| limit.and_then(count)),
        max_lifetime: max_lifetime_minutes
            .map(|limit| limit.map(|life| Duration::from_secs(life.0 * 60))),
        network: network.map(|limit| limit.map(|policy| policy.0)),
    };
    Ok(Answer(call.engine.account_change(call.id, change).await?.into()))
}

async fn topup(call: Call<AccountId, NoQuery, Json<AccountTopup>>) -> Result<Made<Entry>, Failure> {
    let AccountTopup { amount, reference } = call.body.0;
    let amount = micros(amount, MAX_AMOUNT).ok_or_else(|| {
        Failure::invalid("`amount` must be above 0 and up to 1000000000, to a millionth")
    })?;
    Ok(Made(call.engine.account_topup(call.id, amount, reference).await?.into()))
}

async fn ledger(call: Call<AccountId, PageOf, Nothing>) -> Result<Answer<Ledger>, Failure> {
    let page = call.engine.ledger_list(call.id, call.query.query()?).await?;
    Ok(Answer(Ledger {
        entries: page.items.into_iter().map(Entry::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}
