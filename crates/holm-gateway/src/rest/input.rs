//! From paths, queries and bodies to the types of an endpoint. What does not fit is refused with
//! the field named.

use bytes::Bytes;
use holm_engine::{AccountId, KeyId, SandboxId};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::http::request::Parts;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::{schema, text};
use crate::http::body::Intake;
use crate::http::percent;

/// Most characters of a message about wrong input.
const MAX_MESSAGE: usize = 300;

/// The part of a path that names something.
pub trait Param: Sized + Send + 'static {
    /// Its name in the path, where the path has one.
    const NAME: Option<&'static str>;

    /// How it is described.
    fn schema() -> Value;

    /// Reads it.
    ///
    /// # Errors
    /// When it names nothing.
    fn read(text: &str) -> Result<Self, Failure>;
}

/// A path that is always the same.
#[derive(Debug, Clone, Copy)]
pub struct Fixed;

impl Param for Fixed {
    const NAME: Option<&'static str> = None;

    fn schema() -> Value {
        Value::Null
    }

    fn read(_: &str) -> Result<Self, Failure> {
        Ok(Self)
    }
}

macro_rules! ids {
    ($($kind:ty, $name:literal, $schema:expr;)*) => {$(
        impl Param for $kind {
            const NAME: Option<&'static str> = Some($name);

            fn schema() -> Value {
                $schema.to_value()
            }

            fn read(text: &str) -> Result<Self, Failure> {
                text.parse().map_err(|error: holm_engine::IdError| {
                    Failure::invalid(format!("{} {error}", $name))
                })
            }
        }
    )*};
}

ids! {
    SandboxId, "sandbox_id", json_schema!({
        "type": "string", "pattern": "^(sbx_)?[0-9a-f]{18}$",
        "description": "The sandbox's id; its 18 digits alone are enough.",
    });
    AccountId, "account_id", text::id_schema(AccountId::PREFIX);
    KeyId, "key_id", text::id_schema(KeyId::PREFIX);
}

/// An id in a query or a body, whose field has the name that it has in paths.
///
/// # Errors
/// When it is none.
pub fn id<P: Param>(text: &str) -> Result<P, Failure> {
    P::read(text)
}

/// A query without parameters.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoQuery {}

/// Reads a query. Each name may come once; texts become what `kinds` (the properties of `Q`) says.
///
/// # Errors
/// When a name is unknown or twice there, or a value does not fit.
pub fn query<Q: DeserializeOwned>(
    text: Option<&str>,
    kinds: &Map<String, Value>,
) -> Result<Q, Failure> {
    let mut found = Map::new();
    for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let value = typed(value, kinds.get(&name).unwrap_or(&Value::Null));
        if found.contains_key(&name) {
            return Err(Failure::invalid(format!("the query has `{}` twice", shorten(&name))));
        }
        found.insert(name, value);
    }
    read(|| serde_path_to_error::deserialize(Value::Object(found)))
}

fn typed(text: String, schema: &Value) -> Value {
    let is = |kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(many) => many.iter().any(|one| one == kind),
        _ => false,
    };
    if is("integer")
        && let Ok(number) = text.parse::<i64>()
    {
        return json!(number);
    }
    match text.as_str() {
        "true" if is("boolean") => true.into(),
        "false" if is("boolean") => false.into(),
        _ => text.into(),
    }
}

fn decode(text: &str) -> Result<String, Failure> {
    let (bytes, whole) = percent::decode(text);
    let text = String::from_utf8(bytes).ok().filter(|_| whole);
    text.ok_or_else(|| Failure::invalid("the query is not percent-encoded UTF-8"))
}

/// How a body is described.
pub struct BodyDoc {
    /// Its content type.
    pub content_type: &'static str,
    /// What is in it.
    pub schema: Value,
    /// Whether it must be there.
    pub required: bool,
}

/// The body of a request.
pub trait Input: Sized + Send + 'static {
    /// How it is described; nothing where there is none.
    fn describe(generator: &mut SchemaGenerator) -> Option<BodyDoc>;

    /// Reads it.
    fn read(
        intake: &Intake,
        head: &Parts,
        body: Incoming,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;
}

/// No body; one that is sent nevertheless is not read.
#[derive(Debug)]
pub struct Nothing;

impl Input for Nothing {
    fn describe(_: &mut SchemaGenerator) -> Option<BodyDoc> {
        None
    }

    async fn read(intake: &Intake, head: &Parts, body: Incoming) -> Result<Self, Failure> {
        intake.discard(head, body).await;
        Ok(Self)
    }
}

/// A body that is a JSON object.
pub trait Object: DeserializeOwned + JsonSchema + Send + 'static {
    /// True where everything in it has a default, so that it may be left out.
    const OPTIONAL: bool = false;
    /// True where something in it must not be repeated, not even where it is wrong.
    const SECRET: bool = false;
}

/// An [`Object`] as a body.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: Object> Input for Json<T> {
    fn describe(generator: &mut SchemaGenerator) -> Option<BodyDoc> {
        let schema = schema::of::<T>(generator);
        Some(BodyDoc { content_type: "application/json", schema, required: !T::OPTIONAL })
    }

    async fn read(intake: &Intake, head: &Parts, body: Incoming) -> Result<Self, Failure> {
        let body = intake.take(head, body).await?;
        object(head, &body).map(Self)
    }
}

fn object<T: Object>(head: &Parts, body: &Bytes) -> Result<T, Failure> {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    let body: &[u8] = match first {
        None if T::OPTIONAL => b"{}",
        None => return Err(Failure::invalid("the body is empty; it must be a JSON object")),
        // The reader of objects would take an array for one, field by field.
        Some(b'{') if is_json(head) => body,
        Some(b'{') => return Err(Failure::media_type("application/json")),
        Some(_) => return Err(Failure::invalid("the body must be a JSON object")),
    };
    let reading = || {
        let mut reader = serde_json::Deserializer::from_slice(body);
        let value = serde_path_to_error::deserialize(&mut reader)?;
        let ended = reader.end();
        ended.map_err(|error| serde_path_to_error::Error::new(empty_path(), error))?;
        Ok(value)
    };
    if T::SECRET { reading().map_err(unsaid::<T>) } else { read(reading) }
}

/// An error with nothing in it of what was read: the field where it is one of ours, and what belongs
/// there.
fn unsaid<T: Object>(error: serde_path_to_error::Error<serde_json::Error>) -> Failure {
    let (path, error) = (error.path().to_string(), error.into_inner());
    let known = schema::properties::<T>(&mut schema::of_requests()).0;
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let field = path.split(|letter| !is_word(letter)).next().unwrap_or_default();
    let place = if known.contains_key(field) { format!("`{field}`: ") } else { String::new() };
    let said = error.to_string();
    let said = match (said.rsplit_once(", expected "), error.is_data()) {
        (Some((_, expected)), _) => format!("expected {expected}"),
        // Names of ours are in these, and nothing else.
        (None, false) => said,
        (None, true) if said.starts_with("missing field `") => said,
        (None, true) => "it is wrong, or there twice".to_owned(),
    };
    let said = said.split(" at line ").next().unwrap_or(&said);
    Failure::invalid(shorten(&format!("{place}{said}")))
}

fn empty_path() -> serde_path_to_error::Path {
    serde_path_to_error::Track::new().path()
}

fn is_json(head: &Parts) -> bool {
    head.headers.get(CONTENT_TYPE).is_none_or(|value| {
        let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
        let kind = kind.trim().to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    })
}

/// Reads a value; an error names its place.
fn read<T>(
    reading: impl FnOnce() -> Result<T, serde_path_to_error::Error<serde_json::Error>>,
) -> Result<T, Failure> {
    reading().map_err(|error| {
        let path = error.path().to_string();
        let said = error.inner().to_string();
        let said = said.split(" at line ").next().unwrap_or(&said);
        Failure::invalid(shorten(&match path.as_str() {
            "." | "?" => said.to_owned(),
            path => format!("`{path}`: {said}"),
        }))
    })
}

fn shorten(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Some3 {
        path: String,
        limit: Option<super::super::number::Whole<1, 10>>,
        deep: Option<bool>,
    }

    impl Object for Some3 {}

    fn check_query(text: &str, want: Result<(&str, Option<u64>, Option<bool>), &str>) {
        let kinds = schema::properties::<Some3>(&mut schema::of_requests()).0;
        match (query::<Some3>(Some(text), &kinds), want) {
            (Ok(got), Ok(want)) => {
                assert_eq!((got.path.as_str(), got.limit.map(|n| n.0), got.deep), want, "{text}");
            }
            (Err(error), Err(part)) => assert!(error.message.contains(part), "{error:?}"),
            (got, want) => panic!("{text}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn queries_are_read_by_their_description() {
        check_query("path=a", Ok(("a", None, None)));
        check_query("path=%2Fa+b%C3%A9&limit=10&deep=false", Ok(("/a bé", Some(10), Some(false))));
        check_query("path=1&deep=true", Ok(("1", None, Some(true))));
        check_query("", Err("missing field `path`"));
        check_query("path=a&path=b", Err("twice"));
        check_query("path=a&limit=11", Err("`limit`: invalid value"));
        check_query("path=a&limit=x", Err("from 1 to 10"));
        check_query("path=a&limit=", Err("from 1 to 10"));
        check_query("path=a&deep=1", Err("`deep`"));
        check_query("path=a&other=1", Err("unknown field `other`"));
        check_query("path=%ff", Err("UTF-8"));
        check_query("path=%4", Err("percent"));
    }

    #[test]
    fn bodies_are_objects_and_errors_name_the_field() {
        let check = |kind: Option<&str>, body: &'static str, part: &str, status: u16| {
            let mut head = hyper::Request::builder();
            if let Some(kind) = kind {
                head = head.header(CONTENT_TYPE, kind);
            }
            let head = head.body(()).expect("a request").into_parts().0;
            let read = object::<Some3>(&head, &Bytes::from_static(body.as_bytes()));
            let Err(error) = read else { return assert_eq!(part, "", "{body}") };
            assert!(!part.is_empty() && error.message.contains(part), "{body}: {error:?}");
            assert_eq!(error.status, status, "{body}");
        };
        let json = Some("application/json; charset=utf-8");
        check(json, r#" {"path": "a"}"#, "", 0);
        check(None, r#"{"path": "a", "limit": null}"#, "", 0);
        check(Some("text/plain"), r#"{"path": "a"}"#, "application/json", 415);
        check(json, "", "empty", 400);
        check(json, r#"["a", 1, true]"#, "must be a JSON object", 400);
        check(json, "null", "must be a JSON object", 400);
        check(json, r#"{"path": 1}"#, "`path`: invalid type: integer `1`", 400);
        check(json, r#"{"path": "a", "limit": 0}"#, "`limit`: invalid value", 400);
        check(json, r#"{"path": "a", "x": 1}"#, "unknown field `x`", 400);
        check(json, r#"{"path": "a", "path": "b"}"#, "duplicate field `path`", 400);
        check(json, r#"{"path": "a"} x"#, "trailing characters", 400);
        check(json, r#"{"path": "a""#, "EOF", 400);
    }
}
