//! One method of one path: what it takes, what it answers, what it can fail with, and the function
//! that does it. All of it comes from the function's types.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use holm_engine::{Engine, ErrorKind, KeyScope};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method};
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::input::{self, BodyDoc, Input, Param};
use super::output::{AnswerDoc, Output};
use super::over::Over;
use super::schema;
use crate::http::body::Intake;
use crate::http::reply::Response;
use crate::preview::Previews;

/// A response that is being made.
pub type Work = Pin<Box<dyn Future<Output = Result<Response, Failure>> + Send>>;

/// What an endpoint is, apart from its types.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// Its name, also for generated clients.
    pub id: &'static str,
    /// Which resource it belongs to.
    pub tag: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What is worth knowing.
    pub description: &'static str,
    /// The scope that its caller's key needs; nothing where no key is needed.
    pub scope: Option<KeyScope>,
    /// What it can fail with beyond what every request can.
    pub errors: &'static [ErrorKind],
    /// Request headers that mean something to it: name, description, pattern.
    pub headers: &'static [(&'static str, &'static str, &'static str)],
}

/// One method of one path.
pub struct Endpoint {
    /// Its method.
    pub method: Method,
    /// Its path; a part in braces is its parameter.
    pub path: &'static str,
    /// What it is.
    pub about: About,
    /// Its documentation, into the document of a generator.
    pub describe: fn(requests: &mut SchemaGenerator, answers: &mut SchemaGenerator) -> Doc,
    run: Box<dyn Fn(Asked) -> Work + Send + Sync>,
}

/// The types of an endpoint, described.
pub struct Doc {
    /// The parameter in the path.
    pub param: Option<(&'static str, Value)>,
    /// Those in the query.
    pub query: Map<String, Value>,
    /// Which of them must be there.
    pub query_required: Vec<String>,
    /// The body.
    pub body: Option<BodyDoc>,
    /// What it answers when it succeeds.
    pub answers: Vec<AnswerDoc>,
}

/// What the face gives to every request.
#[derive(Clone)]
pub struct Surroundings {
    /// Takes bodies in.
    pub intake: Intake,
    /// Template of sandboxes whose creator names none; the engine's default where absent.
    pub default_template: Option<Arc<str>>,
    /// How often a stream without news says that it lives.
    pub keep_alive: Duration,
    /// What runs in sandboxes, shown to people outside.
    pub previews: Arc<Previews>,
}

/// A request on its way to its endpoint.
pub struct Asked {
    /// The engine, for the caller.
    pub engine: Engine,
    /// Names it in the log.
    pub request_id: Arc<str>,
    /// Its head.
    pub head: Parts,
    /// The part of the path that names something.
    pub param: String,
    /// Its body.
    pub body: Incoming,
    /// What the face gives.
    pub surroundings: Surroundings,
    /// What ends it before its time, for answers that go on after their beginning.
    pub over: Over,
}

/// A request as its endpoint sees it.
pub struct Call<P, Q, B> {
    /// The engine, for the caller.
    pub engine: Engine,
    /// What the path names.
    pub id: P,
    /// The query.
    pub query: Q,
    /// The body.
    pub body: B,
    /// The headers.
    pub headers: HeaderMap,
    /// The way to go on with another protocol, where the connection has one.
    pub upgrade: Option<OnUpgrade>,
    /// Names it in the log.
    pub request_id: Arc<str>,
    /// What the face gives.
    pub surroundings: Surroundings,
    /// What ends it before its time, for answers that go on after their beginning.
    pub over: Over,
}

impl Endpoint {
    /// The endpoint of this function.
    pub fn new<P, Q, B, O, F, W>(method: Method, path: &'static str, about: About, run: F) -> Self
    where
        P: Param,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: Input,
        O: Output,
        F: Fn(Call<P, Q, B>) -> W + Clone + Send + Sync + 'static,
        W: Future<Output = Result<O, Failure>> + Send,
    {
        let kinds = Arc::new(schema::properties::<Q>(&mut schema::of_requests()).0);
        let run = move |asked: Asked| -> Work {
            let (kinds, run) = (Arc::clone(&kinds), run.clone());
            Box::pin(async move {
                let Asked { engine, request_id, head, param, body, surroundings, over } = asked;
                // The path and the query first: what is wrong there needs no body.
                let parsed = P::read(&param)
                    .and_then(|id| Ok((id, input::query::<Q>(head.uri.query(), &kinds)?)));
                let (id, query) = match parsed {
                    Ok(parsed) => parsed,
                    Err(failure) => {
                        surroundings.intake.discard(&head, body).await;
                        return Err(failure);
                    }
                };
                let body = B::read(&surroundings.intake, &head, body).await?;
                let upgrade = head.extensions.get::<OnUpgrade>().cloned();
                let headers = head.headers;
                run(Call {
                    engine,
                    id,
                    query,
                    body,
                    headers,
                    upgrade,
                    request_id,
                    surroundings,
                    over,
                })
                .await
                .map(Output::respond)
            })
        };
        Self { method, path, about, describe: describe::<P, Q, B, O>, run: Box::new(run) }
    }

    /// The parameter in `path`, if the path is this endpoint's: empty where it has none.
    #[must_use]
    pub fn matches<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        let mut param = "";
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return Some(param),
                (Some(our), Some(their)) if our.starts_with('{') && !their.is_empty() => {
                    param = their;
                }
                (Some(our), Some(their)) if our == their => {}
                _ => return None,
            }
        }
    }

    /// Answers a request.
    #[must_use]
    pub fn run(&self, asked: Asked) -> Work {
        (self.run)(asked)
    }
}

fn describe<P: Param, Q: JsonSchema, B: Input, O: Output>(
    requests: &mut SchemaGenerator,
    answers: &mut SchemaGenerator,
) -> Doc {
    let (query, query_required) = schema::properties::<Q>(requests);
    Doc {
        param: P::NAME.map(|name| (name, P::schema())),
        query,
        query_required,
        body: B::describe(requests),
        answers: O::describe(answers),
    }
}
