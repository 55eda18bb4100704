//! The way of a request: door, path, key, answer; and the way down.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holm_engine::{Engine, Room};
use hyper::Request;
use hyper::body::Incoming;
use tokio::sync::watch;

use super::endpoint::{Asked, Endpoint, Surroundings};
use super::failure::Failure;
use super::over::Over;
use super::{
    accounts, archive, audit, code, commands, contexts, exec, files, keys, network, openapi, ports,
    raw, sandboxes, secrets, service, snapshots, templates, tunnel,
};
use crate::http::access::Refused;
use crate::http::body::Intake;
use crate::http::door::Stopped;
use crate::http::face::{Answering, Face};
use crate::http::reply::Response;
use crate::http::server::RequestId;
use crate::http::trace;
use crate::http::{Caller, Door, Limits};
use crate::mcp::panics::Guarded;
use crate::preview::site::{Base, Where};
use crate::preview::{PreviewOptions, Previews};

/// What the face is made of.
pub struct RestOptions {
    /// The engine. Whoever's handle this is: calls are made for the caller of each request.
    pub engine: Engine,
    /// Who may ask.
    pub door: Arc<Door>,
    /// The bounds of bodies.
    pub limits: Limits,
    /// Template of sandboxes whose creator names none; the engine's default where absent.
    pub default_template: Option<String>,
    /// How often a stream without news says that it lives.
    pub keep_alive: Duration,
    /// What runs in sandboxes, shown to people outside.
    pub previews: Arc<Previews>,
}

impl RestOptions {
    /// The usual ones.
    #[must_use]
    pub fn new(engine: Engine, door: Arc<Door>, limits: Limits) -> Self {
        let keep_alive = Duration::from_secs(15);
        let previews = PreviewOptions::local(Where::At(Base::plain(80)));
        let previews = Previews::new(engine.clone(), previews);
        Self { engine, door, limits, default_template: None, keep_alive, previews }
    }
}

/// REST on `/v1`.
pub struct RestFace {
    engine: Engine,
    door: Arc<Door>,
    endpoints: Vec<Endpoint>,
    surroundings: Surroundings,
    stopping: AtomicBool,
    over: watch::Sender<bool>,
}

/// Every endpoint, in the order of the documentation.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let resources = [
        sandboxes::endpoints(),
        exec::endpoints(),
        code::endpoints(),
        contexts::endpoints(),
        commands::endpoints(),
        files::endpoints(),
        raw::endpoints(),
        archive::endpoints(),
        network::endpoints(),
        ports::endpoints(),
        tunnel::endpoints(),
        secrets::endpoints(),
        templates::endpoints(),
        snapshots::endpoints(),
        service::endpoints(),
        accounts::endpoints(),
        keys::endpoints(),
        audit::endpoints(),
        openapi::endpoints(),
    ];
    resources.into_iter().flatten().collect()
}

impl RestFace {
    /// The face.
    #[must_use]
    pub fn new(options: RestOptions) -> Arc<Self> {
        let surroundings = Surroundings {
            intake: Intake::new(&options.limits),
            default_template: options.default_template.map(Into::into),
            keep_alive: options.keep_alive,
            previews: options.previews,
        };
        Arc::new(Self {
            engine: options.engine,
            door: options.door,
            endpoints: endpoints(),
            surroundings,
            stopping: AtomicBool::new(false),
            over: watch::Sender::new(false),
        })
    }

    async fn respond(&self, request: Request<Incoming>, request_id: Arc<str>) -> Response {
        let (head, body) = request.into_parts();
        let mut body = Some(body);
        let answering = self.answer_or_fail(&head, &mut body, &request_id);
        let (result, room) = Room::around(answering).await;
        match result {
            Ok(mut response) => {
                response.body_mut().tie(room);
                response
            }
            Err(failure) => {
                trace::outcome(failure.name);
                if let Some(body) = body.take() {
                    self.surroundings.intake.discard(&head, body).await;
                }
                tracing::debug!(
                    %request_id, status = failure.status, error = failure.name,
                    message = failure.message, "a request failed"
                );
                failure.response(&request_id)
            }
        }
    }

    /// Takes the body where it reads it.
    async fn answer_or_fail(
        &self,
        head: &hyper::http::request::Parts,
        body: &mut Option<Incoming>,
        request_id: &Arc<str>,
    ) -> Result<Response, Failure> {
        let entered = self.door.enter(head).await;
        let path = head.uri.path();
        let found = self.find(&head.method, path);
        let caller = match (entered, &found) {
            (Ok(caller), _) => caller,
            // Nobody needs a key for what everybody may see; a wrong one is refused all the same.
            (Err(Stopped::Credential(Refused::Missing)), Ok((endpoint, _)))
                if endpoint.about.scope.is_none() =>
            {
                Caller::Keyless
            }
            (Err(why), _) => return Err(why.into()),
        };
        let (endpoint, param) = found?;
        trace::route(endpoint.path);
        if endpoint.path.contains("{sandbox_id}")
            && let Ok(id) = param.parse()
        {
            trace::sandbox(id);
        }
        if endpoint.about.scope.is_some() && caller == Caller::Keyless {
            return Err(Failure::key_missing());
        }
        if self.stopping.load(Ordering::SeqCst) {
            return Err(Failure::going_down());
        }
        let Some(body) = body.take() else { return Err(Failure::panicked()) };
        let engine = caller.engine(&self.engine);
        let mut over = Over::new(self.over.subscribe(), engine.key_end());
        let work = endpoint.run(Asked {
            engine,
            request_id: Arc::clone(request_id),
            head: head.clone(),
            param: param.to_owned(),
            body,
            surroundings: Surroundings {
                intake: self.surroundings.intake.of(&caller),
                ..self.surroundings.clone()
            },
            over: over.clone(),
        });
        tokio::select! {
            biased;
            response = work => response,
            failure = over.failure() => Err(failure),
        }
    }

    fn find<'a>(
        &self,
        method: &hyper::Method,
        path: &'a str,
    ) -> Result<(&Endpoint, &'a str), Failure> {
        let mut allow = Vec::new();
        for endpoint in &self.endpoints {
            let Some(param) = endpoint.matches(path) else { continue };
            if endpoint.method == *method {
                return Ok((endpoint, param));
            }
            allow.push(endpoint.method.as_str());
        }
        Err(match allow.is_empty() {
            true => Failure::unknown_path(&secrets::shown(path)),
            false => Failure::method(allow.join(", ")),
        })
    }
}

impl Face for RestFace {
    fn name(&self) -> &'static str {
        "rest"
    }

    fn serves(&self, path: &str) -> bool {
        path == "/v1" || path.starts_with("/v1/")
    }

    fn shown<'a>(&self, path: &'a str) -> Cow<'a, str> {
        secrets::shown(path)
    }

    fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answering {
        let known = request.extensions().get::<RequestId>().cloned();
        let RequestId(request_id) = known.unwrap_or_else(RequestId::fresh);
        let id = Arc::clone(&request_id);
        let answering = Guarded::new(async move { self.respond(request, id).await });
        Box::pin(async move {
            answering.await.unwrap_or_else(|_| Failure::panicked().response(&request_id))
        })
    }

    fn refuse(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn finish(&self) {
        self.over.send_replace(true);
    }
}
