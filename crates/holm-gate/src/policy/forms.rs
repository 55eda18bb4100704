//! The two forms of a policy, JSON and short text, and serde by way of the first.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{EgressPolicy, MAX_RULES, Mode, PolicyError, Rule};

impl EgressPolicy {
    /// The JSON form: `"none"`, `"open"`, or an object with `mode`, `allow` and `deny`. A string may
    /// also be the short text.
    ///
    /// # Errors
    /// What is wrong, with the rule that is.
    pub fn parse_json(value: &Value) -> Result<Self, PolicyError> {
        let policy = match value {
            Value::String(text) => text.parse()?,
            Value::Object(fields) => {
                let known = ["mode", "allow", "deny"];
                if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
                    return Err(PolicyError::Field { field: crate::text::shown(field, 40) });
                }
                let mode = fields.get("mode").and_then(Value::as_str).ok_or(PolicyError::Form)?;
                let list = |field| rules(field, fields.get(field));
                Self { mode: mode.parse()?, allow: list("allow")?, deny: list("deny")? }
            }
            _ => return Err(PolicyError::Form),
        };
        policy.check()?;
        Ok(policy)
    }

    /// The JSON form of this policy, the shortest.
    #[must_use]
    pub fn to_json(&self) -> Value {
        if self.mode != Mode::Allow && self.allow.is_empty() && self.deny.is_empty() {
            return self.mode.as_str().into();
        }
        let list = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>();
        let mut object = serde_json::Map::new();
        object.insert("mode".to_owned(), self.mode.as_str().into());
        if self.mode == Mode::Allow {
            object.insert("allow".to_owned(), list(&self.allow).into());
        }
        if !self.deny.is_empty() {
            object.insert("deny".to_owned(), list(&self.deny).into());
        }
        Value::Object(object)
    }
}

fn rules(field: &'static str, value: Option<&Value>) -> Result<Vec<Rule>, PolicyError> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(value) => value.as_array().ok_or(PolicyError::List { field })?,
    };
    if items.len() > MAX_RULES {
        return Err(PolicyError::TooMany { count: items.len(), limit: MAX_RULES });
    }
    let rule = |item: &Value| item.as_str().ok_or(PolicyError::List { field })?.parse();
    items.iter().map(rule).collect()
}

impl FromStr for Mode {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text {
            "none" => Ok(Self::None),
            "open" => Ok(Self::Open),
            "allow" => Ok(Self::Allow),
            _ => Err(PolicyError::Mode { mode: crate::text::shown(text, 40) }),
        }
    }
}

impl FromStr for EgressPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut parts = text.split(';');
        let first = parts.next().unwrap_or_default();
        let mut policy = match first.split_once(':') {
            Some(("allow", list)) => {
                Self { mode: Mode::Allow, allow: short_list(list)?, deny: Vec::new() }
            }
            _ => Self { mode: first.parse()?, allow: Vec::new(), deny: Vec::new() },
        };
        for part in parts {
            let list = part.strip_prefix("deny:").ok_or_else(|| {
                PolicyError::rule(part, "behind `;` only `deny:` and its rules may follow")
            })?;
            policy.deny.extend(short_list(list)?);
        }
        policy.check()?;
        Ok(policy)
    }
}

fn short_list(text: &str) -> Result<Vec<Rule>, PolicyError> {
    text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(str::parse).collect()
}

impl fmt::Display for EgressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, rules: &[Rule]| {
            for (index, rule) in rules.iter().enumerate() {
                write!(f, "{}{rule}", if index == 0 { "" } else { "," })?;
            }
            Ok(())
        };
        f.write_str(self.mode.as_str())?;
        if self.mode == Mode::Allow {
            f.write_str(":")?;
            list(f, &self.allow)?;
        }
        if !self.deny.is_empty() {
            f.write_str(";deny:")?;
            list(f, &self.deny)?;
        }
        Ok(())
    }
}

impl Serialize for EgressPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_json() {
            Value::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in &object {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
            _ => serializer.serialize_str(self.mode.as_str()),
        }
    }
}

impl<'de> Deserialize<'de> for EgressPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::parse_json(&value).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let check = |json: Value, text: &str| {
            let policy = EgressPolicy::parse_json(&json).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(policy.to_string(), text);
            assert_eq!(policy.to_json(), json, "{text}");
            assert_eq!(text.parse::<EgressPolicy>().as_ref(), Ok(&policy), "{text}");
            let by_serde: EgressPolicy = serde_json::from_value(json.clone()).expect("read");
            assert_eq!(by_serde, policy);
            assert_eq!(serde_json::to_value(&policy).expect("written"), json);
        };
        check(json!("none"), "none");
        check(json!("open"), "open");
        check(json!({"mode": "open", "deny": ["*.example.com"]}), "open;deny:*.example.com");
        check(json!({"mode": "allow", "allow": []}), "allow:");
        check(
            json!({
                "mode": "allow",
                "allow": ["example.com", "*.example.org:443", "[2001:db8::]/32"],
                "deny": ["203.0.113.0/24:5432-5440"],
            }),
            "allow:example.com,*.example.org:443,[2001:db8::]/32;deny:203.0.113.0/24:5432-5440",
        );
    }

    #[test]
    fn loose_forms_are_read() {
        let check = |text: &str, expected: &str| {
            let policy: EgressPolicy = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(policy.to_string(), expected);
        };
        check("allow", "allow:");
        check("allow: A.example , ", "allow:a.example");
        check("open;deny:a.example;deny:b.example", "open;deny:a.example,b.example");
        let null = json!({"mode": "open", "allow": null, "deny": null});
        assert_eq!(EgressPolicy::parse_json(&null), Ok(EgressPolicy::open()));
        let text = "allow:a.example:443;deny:*.b.example";
        assert_eq!(EgressPolicy::parse_json(&json!(text)), text.parse());
    }

    #[test]
    fn wrong_policies_say_what_is_wrong() {
        let check = |json: Value, expected: &str| {
            let error = EgressPolicy::parse_json(&json).expect_err(expected);
            assert_eq!(error.to_string(), expected, "{json}");
        };
        let form =
            "a network policy is `none`, `open`, or an object with `mode`, `allow` and `deny`";
        check(json!(7), form);
        check(json!(null), form);
        check(json!({"allow": ["a.example"]}), form);
        check(json!("off"), "unknown network mode `off`; use `none`, `open` or `allow`");
        check(
            json!({"mode": "open", "ports": []}),
            "a network policy has no field `ports`; it has `mode`, `allow` and `deny`",
        );
        let list = "must be a list of texts such as \"example.com:443\"";
        check(
            json!({"mode": "allow", "allow": "a.example"}),
            &format!("`allow` of a network policy {list}"),
        );
        check(json!({"mode": "open", "deny": [7]}), &format!("`deny` of a network policy {list}"));
        check(
            json!({"mode": "open", "allow": ["a.example"]}),
            "network mode `open` has no `allow` list; use mode `allow` for one",
        );
        check(
            json!({"mode": "none", "deny": ["a.example"]}),
            "network mode `none` has no `deny` list; it refuses everything already",
        );
        check(
            json!({"mode": "allow", "allow": vec!["a.example"; 257]}),
            "257 network rules; the limit is 256",
        );
        check(
            json!({"mode": "allow", "allow": vec!["a.example"; 200], "deny": vec!["b.example"; 57]}),
            "257 network rules; the limit is 256",
        );
        check(
            json!({"mode": "allow", "allow": ["a.example", "a.example:x"]}),
            "network rule `a.example:x`: ports are 1 to 65535, one (`:443`) or a range \
             (`:5432-5440`)",
        );
        let text = |text: &str| text.parse::<EgressPolicy>().expect_err(text).to_string();
        assert_eq!(
            text("open;allow:a.example"),
            "network rule `allow:a.example`: behind `;` only `deny:` and its rules may follow"
        );
        assert_eq!(text(""), "unknown network mode ``; use `none`, `open` or `allow`");
    }
}
