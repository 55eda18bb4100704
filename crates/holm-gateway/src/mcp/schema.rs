//! Small builders of JSON schemas (2020-12), so that the tools' schemas read as tables.

use serde_json::{Map, Value, json};

/// An object that takes the named properties only. `required` names those that must be there.
pub fn input(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// What a tool returns: the named properties, of which all in one of `forms` are there on success,
/// or an error. Clients check results that report an error as well, so the schema has both.
pub fn output(properties: &[(&str, Value)], forms: &[&[&str]]) -> Value {
    let mut all: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    all.insert("error".to_owned(), error());
    let failed: &[&str] = &["error"];
    let forms: Vec<Value> =
        forms.iter().copied().chain([failed]).map(|form| json!({"required": form})).collect();
    json!({"type": "object", "properties": all, "anyOf": forms})
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "Set when the call failed.",
        "properties": {
            "code": {"type": "string", "description": "A stable word, for example file_not_found."},
            "message": {"type": "string"},
            "suggestion": {"type": "string", "description": "What to do next."},
        },
        "required": ["code", "message"],
    })
}

/// A string.
pub fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

/// One of some words.
pub fn choice(description: &str, allowed: &[&str]) -> Value {
    json!({"type": "string", "enum": allowed, "description": description})
}

/// A whole number in a range.
pub fn integer(description: &str, minimum: u64, maximum: u64) -> Value {
    json!({
        "type": "integer", "minimum": minimum, "maximum": maximum, "description": description,
    })
}

/// A whole number from 0, in a result.
pub fn count(description: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": description})
}

/// True or false.
pub fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

/// Names with texts, such as environment variables.
pub fn strings_by_name(description: &str) -> Value {
    json!({
        "type": "object", "additionalProperties": {"type": "string"}, "description": description,
    })
}

/// A list of words.
pub fn words(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// `schema` with the value that counts where the argument is left out.
pub fn with_default(mut schema: Value, default: impl Into<Value>) -> Value {
    schema["default"] = default.into();
    schema
}

/// What a sandbox may reach: a word, or an object with lists.
pub fn network(description: &str) -> Value {
    json!({
        "description": description,
        "anyOf": [
            {"type": "string", "enum": ["none", "open"]},
            {
                "type": "string", "pattern": "^(open|allow:)",
                "description": "As a text: `allow:api.example.com:443,*.example.org`, \
                    `open;deny:bad.example.org`.",
            },
            {
                "type": "object",
                "properties": {
                    "mode": {"type": "string", "enum": ["open", "allow"]},
                    "allow": words(
                        "For mode allow: names (`api.example.com`, `*.example.org`) and networks, \
                         each also with a port (`:443`).",
                    ),
                    "deny": words("The same forms; what is never to be reached."),
                },
                "required": ["mode"],
            },
        ],
    })
}

/// The same, in a result.
pub fn network_shown(description: &str) -> Value {
    json!({"type": ["string", "object"], "description": description})
}

/// The argument that nearly all tools take.
pub fn sandbox_id() -> Value {
    string(
        "Sandbox to use. Leave out to use this session's default sandbox \
         (the last one made by create_sandbox).",
    )
}
