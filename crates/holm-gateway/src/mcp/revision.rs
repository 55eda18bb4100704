//! The revisions of MCP that are spoken here, and how they differ on the wire.
//!
//! *Legacy* revisions are agreed on once by `initialize`. The *modern* one (2026-07-28) has no
//! handshake: every request names its version and the client's capabilities in `_meta`. Both kinds
//! are served side by side; each request is judged by itself. What later revisions added to tools
//! and results (titles, annotations, structured content) is sent to older clients as well, whose
//! schemas allow unknown fields.

use serde_json::{Map, Value, json};

use super::jsonrpc::{
    INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, UNSUPPORTED_PROTOCOL_VERSION, shortened,
};

const META: &str = "_meta";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// Where a modern result names its server.
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// What ties a notification to its `subscriptions/listen` request.
pub const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// How long a client may keep `server/discover` and lists. They only change with the program, so
/// the bound is for clients that outlive it.
const LIST_TTL_MS: u64 = 300_000;

/// One revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The first one; the fallback on stdio.
    R2024_11_05,
    /// The only one with batches.
    R2025_03_26,
    /// Structured results.
    R2025_06_18,
    /// Bad arguments are results, not errors.
    R2025_11_25,
    /// Stateless.
    R2026_07_28,
}

impl Revision {
    /// All of them, newest first, as clients are told.
    pub const ALL: [Self; 5] = [
        Self::R2026_07_28,
        Self::R2025_11_25,
        Self::R2025_06_18,
        Self::R2025_03_26,
        Self::R2024_11_05,
    ];

    /// Its date.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::R2024_11_05 => "2024-11-05",
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// True where every request stands for itself.
    #[must_use]
    pub fn is_modern(self) -> bool {
        self >= Self::R2026_07_28
    }

    /// What `initialize` agrees on: a legacy revision that is known is kept, anything else
    /// becomes `fallback` (each transport has its own).
    #[must_use]
    pub fn negotiate(params: &Map<String, Value>, fallback: Self) -> Self {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        Self::ALL
            .into_iter()
            .filter(|revision| !revision.is_modern())
            .find(|revision| Some(revision.name()) == asked)
            .unwrap_or(fallback)
    }

    /// The one with this date.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// The names of [`Self::ALL`].
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|revision| revision.name()).collect()
    }
}

/// True for a request that stands for itself (or must), whatever was agreed on before.
#[must_use]
pub fn names_its_own(method: &str, params: &Map<String, Value>) -> bool {
    let meta = params.get(META).and_then(Value::as_object);
    let has = |key: &str| meta.is_some_and(|meta| meta.contains_key(key));
    let modern_only = matches!(method, "server/discover" | "subscriptions/listen");
    modern_only || has(META_VERSION) || has(META_CAPABILITIES) || has(META_CLIENT)
}

/// The version that a request names in `_meta`.
#[must_use]
pub fn named_version(params: &Map<String, Value>) -> Option<&str> {
    params.get(META)?.get(META_VERSION)?.as_str()
}

/// A version that is not spoken here.
#[must_use]
pub fn unsupported(asked: &str) -> RpcError {
    RpcError {
        code: UNSUPPORTED_PROTOCOL_VERSION,
        message: "Unsupported protocol version".to_owned(),
        data: Some(json!({"supported": Revision::names(), "requested": shortened(asked)})),
    }
}

/// Which revision a request is to be judged by.
///
/// # Errors
/// When a modern request lacks a required field of `_meta`, or names a version that is not spoken.
pub fn of_request(
    method: &str,
    params: &Map<String, Value>,
    negotiated: Revision,
) -> Result<Revision, RpcError> {
    let meta = match params.get(META) {
        None | Some(Value::Null) => None,
        Some(Value::Object(meta)) => Some(meta),
        Some(_) => return Err(RpcError::new(INVALID_PARAMS, "`_meta` must be an object")),
    };
    if !names_its_own(method, params) {
        return Ok(negotiated);
    }
    let field = |key: &str| meta.and_then(|meta| meta.get(key));
    let required = |key: &str, what: &str| {
        RpcError::new(INVALID_PARAMS, format!("`_meta` must hold `{key}` ({what})"))
    };
    let asked = field(META_VERSION)
        .and_then(Value::as_str)
        .ok_or_else(|| required(META_VERSION, "a string, the protocol version of this request"))?;
    if asked != Revision::R2026_07_28.name() {
        return Err(unsupported(asked));
    }
    if !field(META_CAPABILITIES).is_some_and(Value::is_object) {
        return Err(required(META_CAPABILITIES, "an object, may be empty"));
    }
    Ok(Revision::R2026_07_28)
}

/// Refuses a method that a revision does not have.
///
/// # Errors
/// -32601 for methods of the other era.
pub fn admits(revision: Revision, method: &str) -> Result<(), RpcError> {
    let legacy_only = matches!(method, "initialize" | "ping");
    let modern_only = matches!(method, "server/discover" | "subscriptions/listen");
    if (revision.is_modern() && legacy_only) || (!revision.is_modern() && modern_only) {
        return Err(RpcError::new(
            METHOD_NOT_FOUND,
            format!("Method not found: {method} (not part of revision {})", revision.name()),
        ));
    }
    Ok(())
}

/// Adds what a revision wants on every result; `listing` marks results that may be cached.
#[must_use]
pub fn dress(revision: Revision, mut result: Value, listing: bool, server: &Value) -> Value {
    if !revision.is_modern() {
        return result;
    }
    result["resultType"] = "complete".into();
    if listing {
        result["ttlMs"] = LIST_TTL_MS.into();
        // The same for everybody: tools depend on the program, not on who asks.
        result["cacheScope"] = "public".into();
    }
    if !result[META].is_object() {
        result[META] = json!({});
    }
    result[META][META_SERVER] = server.clone();
    result
}

/// The token under which a client wants to hear of progress.
///
/// # Errors
/// When it is there but neither string nor number.
pub fn progress_token(params: &Map<String, Value>) -> Result<Option<Value>, RpcError> {
    match params.get(META).and_then(|meta| meta.get("progressToken")) {
        None | Some(Value::Null) => Ok(None),
        Some(token @ (Value::String(_) | Value::Number(_))) => Ok(Some(token.clone())),
        Some(_) => {
            Err(RpcError::new(INVALID_PARAMS, "`progressToken` must be a string or a number"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("not an object: {other}"),
        }
    }

    #[test]
    fn initialize_keeps_a_known_revision_and_falls_back_otherwise() {
        let check = |params: Value, expected: &str| {
            let got = Revision::negotiate(&object(params.clone()), Revision::R2024_11_05);
            assert_eq!(got.name(), expected, "{params}");
        };
        check(json!({}), "2024-11-05");
        check(json!({"protocolVersion": "2024-11-05"}), "2024-11-05");
        check(json!({"protocolVersion": "2025-03-26"}), "2025-03-26");
        check(json!({"protocolVersion": "2025-06-18"}), "2025-06-18");
        check(json!({"protocolVersion": "2025-11-25"}), "2025-11-25");
        check(json!({"protocolVersion": "2026-07-28"}), "2024-11-05");
        check(json!({"protocolVersion": "1999-01-01"}), "2024-11-05");
        check(json!({"protocolVersion": 7}), "2024-11-05");
    }

    #[test]
    fn a_request_names_its_revision_or_inherits_it() {
        let check = |method: &str, params: Value, expected: Result<&str, i64>| {
            let got = of_request(method, &object(params.clone()), Revision::R2025_06_18);
            assert_eq!(
                got.map(Revision::name).map_err(|error| error.code),
                expected,
                "{method} {params}"
            );
        };
        let full = json!({META_VERSION: "2026-07-28", META_CAPABILITIES: {}});
        check("tools/list", json!({}), Ok("2025-06-18"));
        check("tools/list", json!({"_meta": null}), Ok("2025-06-18"));
        check("tools/list", json!({"_meta": {"progressToken": 1}}), Ok("2025-06-18"));
        check("tools/list", json!({"_meta": full}), Ok("2026-07-28"));
        check("tools/list", json!({"_meta": "x"}), Err(INVALID_PARAMS));
        check("server/discover", json!({}), Err(INVALID_PARAMS));
        check("server/discover", json!({"_meta": full}), Ok("2026-07-28"));
        check("tools/list", json!({"_meta": {META_VERSION: "2026-07-28"}}), Err(INVALID_PARAMS));
        check("tools/list", json!({"_meta": {META_CAPABILITIES: {}}}), Err(INVALID_PARAMS));
        check("tools/list", json!({"_meta": {META_CLIENT: {}}}), Err(INVALID_PARAMS));
        let wrong = json!({META_VERSION: 7, META_CAPABILITIES: {}});
        check("tools/list", json!({"_meta": wrong}), Err(INVALID_PARAMS));
        let wrong = json!({META_VERSION: "2026-07-28", META_CAPABILITIES: []});
        check("tools/list", json!({"_meta": wrong}), Err(INVALID_PARAMS));
        for version in ["v999.0.0", "2025-11-25", ""] {
            let meta = json!({META_VERSION: version, META_CAPABILITIES: {}});
            check("tools/list", json!({"_meta": meta}), Err(UNSUPPORTED_PROTOCOL_VERSION));
        }
    }

    #[test]
    fn an_unknown_version_is_told_what_is_spoken() {
        let params = object(json!({"_meta": {META_VERSION: "v9", META_CAPABILITIES: {}}}));
        let error = of_request("tools/list", &params, Revision::R2024_11_05).expect_err("refused");
        assert_eq!(
            error.data,
            Some(json!({
                "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                "requested": "v9",
            }))
        );
    }

    #[test]
    fn only_modern_results_are_dressed() {
        let server = json!({"name": "holm", "version": "1"});
        let plain = json!({"tools": []});
        assert_eq!(dress(Revision::R2025_11_25, plain.clone(), true, &server), plain);
        assert_eq!(
            dress(Revision::R2026_07_28, plain, true, &server),
            json!({
                "tools": [], "resultType": "complete", "ttlMs": LIST_TTL_MS,
                "cacheScope": "public", "_meta": {META_SERVER: server},
            })
        );
    }
}
