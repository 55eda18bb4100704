//! What a sandbox may reach, as requests say it and answers show it.

use std::borrow::Cow;

use holm_engine::EgressPolicy;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// Most characters of a rule, and most rules of a list.
const RULE: usize = 280;
const RULES: usize = 256;
/// Most characters of a policy as a text.
const TEXT: usize = RULES * (RULE + 2);
/// What a policy as a text looks like.
const SHORT: &str = "^(none|open|allow(:[^;]*)?)(;deny:[^;]*)*$";

/// A network policy in a request: a word, an object with lists, or the same as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy(pub EgressPolicy);

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        strict(&value).map_err(D::Error::custom)?;
        EgressPolicy::parse_json(&value).map(Self).map_err(D::Error::custom)
    }
}

/// Refuses forms that are read elsewhere, but that this interface does not describe.
fn strict(value: &Value) -> Result<(), &'static str> {
    const FORM: &str = "must be \"none\", \"open\", a text such as \"allow:example.com:443\", or an \
        object with `mode` and the lists `allow` and `deny`";
    match value {
        Value::String(text) if text.len() > TEXT => Err("is too long for a policy"),
        Value::String(_) => Ok(()),
        Value::Object(map) => strict_lists(map),
        _ => Err(FORM),
    }
}

fn strict_lists(map: &Map<String, Value>) -> Result<(), &'static str> {
    let mode = map.get("mode").and_then(Value::as_str);
    let mode = mode.ok_or("`mode` must be \"none\", \"open\" or \"allow\"")?;
    let is_list = |value: &Value| value.is_array();
    if !["allow", "deny"].iter().filter_map(|name| map.get(*name)).all(is_list) {
        return Err("`allow` and `deny` must be lists of rules");
    }
    if mode != "allow" && map.contains_key("allow") {
        return Err("`allow` is of mode \"allow\"");
    }
    if mode == "none" && map.contains_key("deny") {
        return Err("mode \"none\" has no `deny`; it refuses everything");
    }
    Ok(())
}

fn rules(description: &str) -> Value {
    json!({
        "type": "array", "maxItems": RULES, "description": description,
        "items": {"type": "string", "minLength": 1, "maxLength": RULE},
    })
}

fn form(mode: &str, lists: &[&str]) -> Value {
    let mut properties = Map::new();
    properties.insert("mode".to_owned(), json!({"type": "string", "enum": [mode]}));
    for list in lists {
        let what = match *list {
            "allow" => {
                "What may be reached: `example.com`, `*.example.com` (all below it), an address or \
                 a network, each also with a port (`:443`) or ports (`:5432-5440`)."
            }
            _ => "What may not be reached, whatever else says so; the same forms.",
        };
        properties.insert((*list).to_owned(), rules(what));
    }
    json!({
        "type": "object", "properties": properties, "required": ["mode"],
        "additionalProperties": false,
    })
}

/// The forms of a policy, of which `text` is the one that is no object.
fn schema(text: &Value) -> Schema {
    json_schema!({
        "description": "What a sandbox may reach: nothing, public addresses, or what is \
            listed. 256 rules at most, both lists together. This host, private and other \
            special addresses are refused always.",
        "oneOf": [
            text,
            form("none", &[]), form("open", &["deny"]), form("allow", &["allow", "deny"]),
        ],
    })
}

impl JsonSchema for Policy {
    fn schema_name() -> Cow<'static, str> {
        "NetworkPolicy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(&json!({
            "type": "string", "pattern": SHORT, "maxLength": TEXT,
            "description": "`none`, `open`, or with lists as a text: \
                `allow:api.example.com:443,*.example.org;deny:bad.example.org`.",
        }))
    }
}

/// A network policy in an answer: in the form in which it is taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PolicyShown(pub Value);

impl From<EgressPolicy> for PolicyShown {
    fn from(policy: EgressPolicy) -> Self {
        Self(policy.to_json())
    }
}

impl JsonSchema for PolicyShown {
    fn schema_name() -> Cow<'static, str> {
        "NetworkPolicyShown".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(&json!({"type": "string", "enum": ["none", "open"]}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value, want: Result<&str, &str>) {
        let text = value.to_string();
        match (serde_json::from_value::<Policy>(value), want) {
            (Ok(policy), Ok(want)) => assert_eq!(policy.0.to_string(), want),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{text}: {error}");
            }
            (got, want) => panic!("{text}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn what_is_described_is_taken_and_nothing_else() {
        check(json!("none"), Ok("none"));
        check(json!("open"), Ok("open"));
        check(json!({"mode": "none"}), Ok("none"));
        check(json!({"mode": "open", "deny": ["*.example.com"]}), Ok("open;deny:*.example.com"));
        check(json!({"mode": "allow", "allow": ["a.example:443"]}), Ok("allow:a.example:443"));
        check(json!("allow:a.example:443"), Ok("allow:a.example:443"));
        check(json!("open;deny:*.example.com"), Ok("open;deny:*.example.com"));
        check(json!("closed"), Err("closed"));
        check(json!("none;deny:a.example"), Err("deny"));
        check(json!("allow:a b"), Err("a b"));
        check(json!(format!("allow:{}", ",".repeat(TEXT))), Err("too long"));
        check(json!(7), Err("must be"));
        check(json!(["open"]), Err("must be"));
        check(json!({}), Err("`mode`"));
        check(json!({"mode": 1}), Err("`mode`"));
        check(json!({"mode": "some"}), Err("some"));
        check(json!({"mode": "open", "deny": null}), Err("lists"));
        check(json!({"mode": "open", "deny": "a.example"}), Err("lists"));
        check(json!({"mode": "open", "allow": []}), Err("allow"));
        check(json!({"mode": "none", "deny": []}), Err("deny"));
        check(json!({"mode": "allow", "allow": ["a b"]}), Err("a b"));
        check(json!({"mode": "open", "more": 1}), Err("more"));
    }
}
