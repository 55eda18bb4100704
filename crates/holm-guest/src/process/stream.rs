//! `Start` and `Connect`.

use std::rc::Rc;

use holm_wire::process::{SelectRequest, StartRequest};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};
use tokio::time::Instant;

use super::program::{Program, keepalive};
use super::queue::{Follower, Queue};
use crate::command::plan::{Becomes, Command};
use crate::command::spawn::{Input, spawn};
use crate::errors::{Result, invalid};
use crate::server::body::Reply;
use crate::server::route::with_stream;
use crate::server::rpc;
use crate::state::Shared;

fn follow(queue: Rc<Queue>, headers: &HeaderMap) -> Response<Reply> {
    let follower = Follower::new(queue, rpc::keepalive(headers), keepalive());
    rpc::stream(Reply::parts(follower))
}

/// `process.Process/Start`.
///
/// The program goes on when the caller goes away; only the caller's deadline
/// (`Connect-Timeout-Ms`) ends it, with all that it started. One that is its caller's alone
/// (`X-Holm-Owned`) ends so when the caller goes away.
pub async fn start(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let headers = request.headers().clone();
    with_stream(request, async move |asked| begin(guest, asked, &headers).await).await
}

async fn begin(guest: Shared, asked: StartRequest, headers: &HeaderMap) -> Result<Response<Reply>> {
    guest.configured().await;
    let owned = headers.contains_key(holm_wire::paths::guest::OWNED);
    let deadline = rpc::timeout(headers).and_then(|wait| Instant::now().checked_add(wait));
    let user = guest.users.find(&rpc::user(headers)?)?;
    guest.processes.check_room()?;
    if asked.process.cmd.is_empty() {
        return Err(invalid("`process.cmd` is empty"));
    }
    let mut env = asked.process.envs.clone();
    let input = match asked.pty {
        Some(pty) => {
            env.entry("TERM".to_owned()).or_insert_with(|| "xterm-256color".to_owned());
            Input::Terminal(pty.size)
        }
        None if asked.stdin == Some(false) => Input::None,
        None => Input::Pipe,
    };
    let mut argv = vec![asked.process.cmd.clone()];
    argv.extend(asked.process.args.iter().cloned());
    let cwd = asked.process.cwd.clone();
    let command =
        Command { argv, env, cwd, default_cwd: user.home.clone(), user, becomes: Becomes::Program };
    let child = spawn(&guest, &command, input)?;
    let pid = child.started().await?;
    let program = Program::new(child, pid, asked.tag, asked.process);
    guest.processes.add(&program);
    let owner = program.follow(true);
    let stream = follow(Rc::clone(&owner), headers);
    tokio::task::spawn_local(async move {
        Rc::clone(&program).watch(owner, owned, deadline).await;
        guest.processes.retire(&program);
    });
    Ok(stream)
}

/// `process.Process/Connect`: what comes from now on, and the end, also when it was a while ago.
pub async fn connect(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let headers = request.headers().clone();
    with_stream(request, async move |asked: SelectRequest| {
        let program = guest.processes.find(&asked.process)?;
        Ok(follow(program.follow(false), &headers))
    })
    .await
}
