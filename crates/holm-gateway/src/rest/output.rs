//! From the types of an endpoint to responses.

use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::Serialize;
use serde_json::Value;

use super::failure::encode;
use super::schema;
use crate::http::reply::{self, Response};

/// How an answer is described.
pub struct AnswerDoc {
    /// Its status.
    pub status: u16,
    /// What it means.
    pub description: &'static str,
    /// Its content types with what is in them.
    pub content: Vec<(&'static str, Value)>,
}

/// What an endpoint answers when it succeeds.
pub trait Output: Send {
    /// How it is described.
    fn describe(generator: &mut SchemaGenerator) -> Vec<AnswerDoc>;

    /// The response.
    fn respond(self) -> Response;
}

/// JSON with status 200.
#[derive(Debug)]
pub struct Answer<T>(pub T);

/// JSON with status 201: something is there now that was not.
#[derive(Debug)]
pub struct Made<T>(pub T);

fn json<T: JsonSchema>(generator: &mut SchemaGenerator) -> Vec<(&'static str, Value)> {
    vec![("application/json", schema::of::<T>(generator))]
}

impl<T: Serialize + JsonSchema + Send> Output for Answer<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let content = json::<T>(generator);
        vec![AnswerDoc { status: 200, description: "Done.", content }]
    }

    fn respond(self) -> Response {
        reply::json_bytes(200, encode(&self.0))
    }
}

impl<T: Serialize + JsonSchema + Send> Output for Made<T> {
    fn describe(generator: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let content = json::<T>(generator);
        vec![AnswerDoc { status: 201, description: "Made.", content }]
    }

    fn respond(self) -> Response {
        reply::json_bytes(201, encode(&self.0))
    }
}
