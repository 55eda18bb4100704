//! Which call is where.

use holm_wire::connect::{Code, Error};
use holm_wire::guest::{Configure, ListTreeRequest, RunRequest};
use holm_wire::process::Empty;
use holm_wire::{background, filesystem as fs, kernel, paths, process};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, header};

use super::body::{Reply, respond};
use super::rpc::{failure, first_message, reply, stream_failure, unary, whole};
use crate::background::start as jobs;
use crate::errors::Result;
use crate::state::Shared;
use crate::{command, contexts, files, metrics, settings, tunnel};

/// Answers one request.
pub async fn answer(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let path = request.uri().path().to_owned();
    if path.starts_with("/process.")
        || path.starts_with("/filesystem.")
        || path.starts_with("/holm.")
    {
        if request.method() != Method::POST {
            return failure(&Error::new(Code::Unimplemented, "calls are made with POST"));
        }
        return call(guest, &path, request).await;
    }
    let method = request.method().clone();
    let pool = guest.files.clone();
    let reply = match (&method, path.as_str()) {
        (&Method::GET, paths::http::HEALTH) => respond(204, "text/plain", ""),
        (&Method::GET, paths::http::METRICS) => reply(Ok(metrics::read(&guest))),
        (&Method::GET, paths::http::ENVS) => reply(settings::environment(&guest, &request)),
        (&Method::GET, paths::http::FILES) => files::envd_http::download(guest, request).await,
        (&Method::POST, paths::http::FILES) => files::envd_http::upload(guest, request).await,
        (&Method::POST, paths::http::COMPOSE) => files::compose::compose(guest, request).await,
        (&Method::GET, paths::guest::FILE) => files::http::download(guest, request).await,
        (&Method::PUT, paths::guest::FILE) => files::http::upload(guest, request).await,
        (&Method::PUT, paths::guest::UPLOAD) => files::inflow::open(guest, request).await,
        (&Method::GET, paths::guest::TAR) => files::tar_http::download(guest, request).await,
        (&Method::PUT, paths::guest::TAR) => files::tar_http::upload(guest, request).await,
        (&Method::POST, paths::guest::TUNNEL) => tunnel::open(request).await,
        _ => {
            respond(404, "application/json", r#"{"code":"unimplemented","message":"no such call"}"#)
        }
    };
    if !reply.status().is_success() {
        // What a failed upload had begun is gone before the caller is told.
        pool.settled().await;
    }
    reply
}

/// Whether a request asks to go on with another protocol.
pub fn asks_for(request: &Request<Incoming>, protocol: &str) -> bool {
    let asked = request.headers().get(header::UPGRADE);
    asked.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(protocol.as_bytes()))
}

/// The answer that agrees to it.
pub fn switching(protocol: &'static str) -> Response<Reply> {
    let mut response = respond(StatusCode::SWITCHING_PROTOCOLS.as_u16(), "", "");
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, header::HeaderValue::from_static(protocol));
    response
}

async fn call(guest: Shared, path: &str, request: Request<Incoming>) -> Response<Reply> {
    match path {
        paths::process::START => return crate::process::stream::start(guest, request).await,
        paths::process::CONNECT => return crate::process::stream::connect(guest, request).await,
        paths::process::STREAM_INPUT => {
            return crate::process::input::stream_input(guest, request).await;
        }
        paths::filesystem::WATCH_DIR => return files::watch_stream::watch(guest, request).await,
        _ => {}
    }
    let user = match super::rpc::user(request.headers()) {
        Ok(user) => user,
        Err(error) => return failure(&error),
    };
    match path {
        paths::guest::CONFIGURE => {
            reply(with(request, async |q: Configure| settings::configure(&guest, q).await).await)
        }
        paths::guest::RUN => {
            reply(with(request, async |q: RunRequest| command::run::run(guest, q).await).await)
        }
        paths::guest::START_BACKGROUND => {
            let start = async |q: background::StartRequest| jobs::start(guest, q).await;
            reply(with(request, start).await)
        }
        paths::guest::GET_BACKGROUND => {
            let get = async |q: background::GetRequest| guest.background.get(&q).await;
            reply(with(request, get).await)
        }
        paths::guest::LIST_BACKGROUND => {
            reply(with(request, async |_: Empty| Ok(guest.background.list())).await)
        }
        paths::guest::SEND_BACKGROUND_INPUT => {
            let send = async |q: background::InputRequest| guest.background.feed(q).await;
            reply(with(request, send).await)
        }
        paths::guest::KILL_BACKGROUND => {
            let kill = async |q: background::KillRequest| guest.background.kill(&q).await;
            reply(with(request, kill).await)
        }
        paths::guest::CREATE_CONTEXT => {
            let create = async |q: kernel::CreateRequest| contexts::create(&guest, q).await;
            reply(with(request, create).await)
        }
        paths::guest::LIST_CONTEXTS => {
            let list = async |_: Empty| Ok(guest.contexts.view(&guest.workdir()));
            reply(with(request, list).await)
        }
        paths::guest::RESTART_CONTEXT => {
            let restart = async |q: kernel::Named| contexts::restart(&guest, q).await;
            reply(with(request, restart).await)
        }
        paths::guest::DELETE_CONTEXT => {
            let delete = async |q: kernel::Named| contexts::delete(&guest, q).await;
            reply(with(request, delete).await)
        }
        paths::guest::EXECUTE => {
            let execute = async |q: kernel::ExecuteRequest| contexts::execute(&guest, q).await;
            whole(with(request, execute).await)
        }
        paths::guest::LIST_TREE => {
            let list = async |q: ListTreeRequest| files::list_tree::list(&guest, q).await;
            reply(with(request, list).await)
        }
        paths::process::LIST => {
            reply(with(request, async |_: Empty| Ok(guest.processes.list())).await)
        }
        paths::process::SEND_INPUT => {
            let send = async |q: process::SendInputRequest| guest.processes.send_input(q).await;
            reply(with(request, send).await)
        }
        paths::process::CLOSE_STDIN => {
            let close =
                async |q: process::SelectRequest| guest.processes.close_stdin(&q.process).await;
            reply(with(request, close).await)
        }
        paths::process::SEND_SIGNAL => {
            let send = async |q: process::SendSignalRequest| guest.processes.send_signal(&q).await;
            reply(with(request, send).await)
        }
        paths::process::UPDATE => {
            let update = async |q: process::UpdateRequest| guest.processes.update(&q);
            reply(with(request, update).await)
        }
        paths::filesystem::STAT => {
            let stat = async |q: fs::PathRequest| files::envd::stat(&guest, &user, q).await;
            reply(with(request, stat).await)
        }
        paths::filesystem::LIST_DIR => {
            let list = async |q: fs::ListDirRequest| files::envd::list_dir(&guest, &user, q).await;
            reply(with(request, list).await)
        }
        paths::filesystem::MAKE_DIR => {
            let make = async |q: fs::PathRequest| files::envd::make_dir(&guest, &user, q).await;
            reply(with(request, make).await)
        }
        paths::filesystem::MOVE => {
            let rename = async |q: fs::MoveRequest| files::envd::rename(&guest, &user, q).await;
            reply(with(request, rename).await)
        }
        paths::filesystem::REMOVE => {
            let remove = async |q: fs::PathRequest| files::envd::remove(&guest, &user, q).await;
            reply(with(request, remove).await)
        }
        paths::filesystem::CREATE_WATCHER => {
            let create = async |q: fs::WatchRequest| files::watch::create(&guest, &user, q).await;
            reply(with(request, create).await)
        }
        paths::filesystem::GET_WATCHER_EVENTS => {
            reply(with(request, async |q: fs::Watcher| guest.watchers.events(&q)).await)
        }
        paths::filesystem::REMOVE_WATCHER => {
            reply(with(request, async |q: fs::Watcher| guest.watchers.remove(&q)).await)
        }
        _ => failure(&Error::new(Code::Unimplemented, format!("there is no call {path}"))),
    }
}

/// Reads the request and hands it on.
async fn with<Q, R>(
    request: Request<Incoming>,
    answer: impl AsyncFnOnce(Q) -> Result<R>,
) -> Result<R>
where
    Q: serde::de::DeserializeOwned,
{
    answer(unary(request).await?).await
}

/// Reads the message that begins a stream and hands it on; a failure becomes the stream's end.
pub async fn with_stream<Q>(
    request: Request<Incoming>,
    answer: impl AsyncFnOnce(Q) -> Result<Response<Reply>>,
) -> Response<Reply>
where
    Q: serde::de::DeserializeOwned,
{
    let result = match first_message(request).await {
        Ok(message) => answer(message).await,
        Err(error) => Err(error),
    };
    result.unwrap_or_else(stream_failure)
}
