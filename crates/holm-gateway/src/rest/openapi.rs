//! The OpenAPI document: what the endpoints say of themselves, put together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use bytes::Bytes;
use holm_engine::ErrorKind;
use hyper::Method;
use schemars::generate::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::endpoint::{About, Call, Doc, Endpoint};
use super::failure::{ErrorBody, Failure, of_kind};
use super::input::{Fixed, NoQuery, Nothing};
use super::output::{AnswerDoc, Output};
use super::{face, schema};
use crate::http::reply::{self, Response};

const DESCRIPTION: &str = "Disposable, isolated Linux sandboxes. Every failed request answers an \
    `error` with a `type` of a closed list, a message, and what to do about it.";

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let (mut requests, mut answers) = (schema::of_requests(), schema::of_answers());
    let error = schema::of::<ErrorBody>(&mut answers);
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for endpoint in face::endpoints() {
        let method = endpoint.method.as_str().to_ascii_lowercase();
        let operation = operation(&endpoint, (&mut requests, &mut answers), &error);
        paths.entry(endpoint.path).or_default().insert(method, operation);
    }
    // Types are read or written, never both, so no name is there twice.
    let mut schemas = requests.take_definitions(true);
    schemas.extend(answers.take_definitions(true));
    let schemas = schema::tidy(Value::Object(schemas));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "holm",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    })
}

fn operation(
    endpoint: &Endpoint,
    (requests, answers): (&mut SchemaGenerator, &mut SchemaGenerator),
    error: &Value,
) -> Value {
    let about = &endpoint.about;
    let doc = (endpoint.describe)(requests, answers);
    let mut described = about.description.to_owned();
    if let Some(scope) = about.scope {
        described.push_str(&format!(" The key needs the scope `{scope}`."));
    }
    let mut operation = json!({
        "operationId": about.id,
        "tags": [about.tag],
        "summary": about.summary,
        "description": described,
        "responses": responses(about, &doc, error),
        "security": match about.scope {
            Some(_) => json!([{"bearer": []}, {"key": []}]),
            None => json!([]),
        },
    });
    let parameters = parameters(about, &doc);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = doc.body {
        let content = json!({body.content_type: {"schema": body.schema}});
        operation["requestBody"] = json!({"required": body.required, "content": content});
    }
    operation
}

fn parameters(about: &About, doc: &Doc) -> Vec<Value> {
    let mut all = Vec::new();
    let mut add = |name: &str, place: &str, required: bool, mut schema: Value| {
        let description = schema.as_object_mut().and_then(|map| map.remove("description"));
        let mut parameter =
            json!({"name": name, "in": place, "required": required, "schema": schema});
        if let Some(description) = description {
            parameter["description"] = description;
        }
        all.push(parameter);
    };
    if let Some((name, schema)) = &doc.param {
        add(name, "path", true, schema.clone());
    }
    for (name, schema) in &doc.query {
        let required = doc.query_required.contains(name);
        add(name, "query", required, schema::without_null(schema.clone()));
    }
    for (name, description, pattern) in about.headers {
        let schema = json!({"type": "string", "pattern": pattern, "description": description});
        add(name, "header", false, schema);
    }
    all
}

/// What every request with a key can fail with …
const ALWAYS: &[ErrorKind] = &[
    ErrorKind::InvalidArgument,
    ErrorKind::Unauthorized,
    ErrorKind::Forbidden,
    ErrorKind::RateLimited,
    ErrorKind::Internal,
    ErrorKind::Unavailable,
];

fn responses(about: &About, doc: &Doc, error: &Value) -> Value {
    let mut all = Map::new();
    for answer in &doc.answers {
        let content: Map<String, Value> = answer
            .content
            .iter()
            .map(|(kind, schema)| ((*kind).to_owned(), json!({"schema": schema})))
            .collect();
        let described = json!({"description": answer.description, "content": content});
        all.insert(answer.status.to_string(), described);
    }
    let mut failures: BTreeMap<u16, BTreeSet<&str>> = BTreeMap::new();
    for kind in ALWAYS.iter().chain(about.errors) {
        let row = of_kind(*kind);
        failures.entry(row.status).or_default().insert(row.name);
    }
    if doc.body.is_some() {
        // … and what a body can be refused with.
        let body = [
            (408, ErrorKind::Timeout),
            (413, ErrorKind::TooLarge),
            (415, ErrorKind::InvalidArgument),
        ];
        for (status, kind) in body {
            failures.entry(status).or_default().insert(of_kind(kind).name);
        }
    }
    for (status, names) in failures {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let mut described = json!({
            "description": names.join(", "),
            "content": {"application/json": {"schema": error}},
        });
        let header = match status {
            401 => Some(("WWW-Authenticate", json!({"type": "string"}))),
            429 | 503 => Some(("Retry-After", json!({"type": "integer", "minimum": 0}))),
            _ => None,
        };
        if let Some((name, schema)) = header {
            described["headers"] = json!({name: {"schema": schema}});
        }
        all.insert(status.to_string(), described);
    }
    all.into()
}

/// The document as it is served and committed.
#[must_use]
pub fn text() -> Bytes {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let make = || {
        let mut text = serde_json::to_vec_pretty(&document()).unwrap_or_default();
        text.push(b'\n');
        text.into()
    };
    TEXT.get_or_init(make).clone()
}

/// The document as an answer.
#[derive(Debug)]
pub struct Document;

impl Output for Document {
    fn describe(_: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let schema = json!({"type": "object"});
        let content = vec![("application/json", schema)];
        vec![AnswerDoc { status: 200, description: "This document.", content }]
    }

    fn respond(self) -> Response {
        reply::json_bytes(200, text())
    }
}

/// The endpoint of the document.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = About {
        id: "openapi_get",
        tag: "service",
        summary: "Get this document",
        description: "What this service answers, as OpenAPI 3.1. Needs no key.",
        scope: None,
        errors: &[],
        headers: &[],
    };
    vec![Endpoint::new(Method::GET, "/v1/openapi.json", about, get)]
}

async fn get(_: Call<Fixed, NoQuery, Nothing>) -> Result<Document, Failure> {
    Ok(Document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_is_both_read_and_written_and_all_references_lead_somewhere() {
        let (mut requests, mut answers) = (schema::of_requests(), schema::of_answers());
        for endpoint in face::endpoints() {
            (endpoint.describe)(&mut requests, &mut answers);
        }
        let read = requests.take_definitions(true);
        let written = answers.take_definitions(true);
        let both: Vec<&String> = read.keys().filter(|name| written.contains_key(*name)).collect();
        assert!(both.is_empty(), "{both:?}");
        let document = document();
        let text = document.to_string();
        for part in text.split("\"#/").skip(1) {
            let pointer = part.split('"').next().expect("a text");
            assert!(document.pointer(&format!("/{pointer}")).is_some(), "{pointer}");
        }
    }
}
