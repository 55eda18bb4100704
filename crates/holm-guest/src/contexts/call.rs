//! The calls about contexts.

use std::rc::Rc;

use holm_wire::connect::{Code, Error};
use holm_wire::kernel::{Context as View, CreateRequest, ExecuteRequest, Named};
use holm_wire::process::Empty;
use serde::Serialize;
use tokio::sync::{Notify, oneshot};

use super::context::{Context, Ran};
use super::gate::Place;
use crate::bridge::lines::Run;
use crate::bridge::spec;
use crate::errors::{Result, internal, invalid, shorten};
use crate::identity::User;
use crate::state::Shared;

/// Whoever has this waits for an answer; when it is dropped nobody does.
struct Caller(Rc<Notify>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Makes a context, with its kernel.
///
/// # Errors
/// `unimplemented` where there is no kernel of that language, `unavailable` where it does not start,
/// `resource_exhausted` where there are too many.
pub async fn create(guest: &Shared, asked: CreateRequest) -> Result<View> {
    guest.configured().await;
    let CreateRequest { language, user, cwd, env } = asked;
    let place = Place { language, user: guest.users.find(&user)?, cwd, env };
    look(guest, &place.user, &place.language).await?;
    let context = Context::new(guest.contexts.fresh_id(), place, false);
    guest.contexts.add(&context)?;
    // In a task of its own: a caller that leaves gets no answer, and the context is listed.
    let (sender, receiver) = oneshot::channel();
    let (guest, made) = (Shared::clone(guest), Rc::clone(&context));
    let workdir = guest.workdir();
    tokio::task::spawn_local(async move {
        let started = made.start(&guest).await;
        if started.is_err() {
            guest.contexts.remove(&made);
        }
        let _ = sender.send(started);
    });
    receiver.await.map_err(|error| internal("cannot start a kernel", error))??;
    Ok(context.view(&workdir))
}

/// Refuses a language without looking further where there are no kernels at all.
async fn look(guest: &Shared, user: &User, language: &str) -> Result<()> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+#-_".contains(c);
    if language.is_empty() || language.len() > 40 || !language.chars().all(is_name) {
        return Err(invalid("this is no name of a language"));
    }
    let home = user.home.clone();
    if guest.files.run(user, move || spec::are_there(&home)).await? {
        return Ok(());
    }
    let text = format!("this sandbox has no kernel for {language}, nor any other");
    Err(Error::new(Code::Unimplemented, text))
}

/// The context that code runs in; the usual one is made where it is missing.
async fn pick(guest: &Shared, asked: &ExecuteRequest) -> Result<Rc<Context>> {
    if !asked.context.is_empty() {
        let context = guest.contexts.find(&asked.context)?;
        let own = &context.place.language;
        if !asked.language.is_empty() && asked.language != *own {
            let text = format!("the context {} is for {own}", shorten(&asked.context));
            return Err(invalid(text));
        }
        return Ok(context);
    }
    let user = guest.users.find(&asked.user)?;
    let usual = guest.users.find("").is_ok_and(|usual| usual.uid == user.uid);
    let id = match usual {
        true => asked.language.clone(),
        false => format!("{}-{}", asked.language, user.name),
    };
    if let Some(context) = guest.contexts.get(&id) {
        return Ok(context);
    }
    look(guest, &user, &asked.language).await?;
    // Another call may have made it meanwhile.
    if let Some(context) = guest.contexts.get(&id) {
        return Ok(context);
    }
    let place =
        Place { language: asked.language.clone(), user, cwd: None, env: Default::default() };
    let context = Context::new(id, place, true);
    guest.contexts.add(&context)?;
    Ok(context)
}

/// Runs code in a context; gives a [`holm_wire::kernel::Answer`] as JSON. When this is dropped the code is
/// interrupted.
///
/// # Errors
/// `unimplemented` where there is no kernel of that language; see [`Context::run`].
pub async fn execute(guest: &Shared, asked: ExecuteRequest) -> Result<Vec<u8>> {
    guest.configured().await;
    if asked.timeout_ms == 0 {
        return Err(invalid("timeoutMs must be above 0"));
    }
    let context = pick(guest, &asked).await?;
    let leave = Rc::new(Notify::new());
    let _caller = Caller(Rc::clone(&leave));
    let run = Run { code: asked.code, timeout_ms: asked.timeout_ms };
    let (sender, receiver) = oneshot::channel();
    let (in_task, used) = (Shared::clone(guest), Rc::clone(&context));
    tokio::task::spawn_local(async move {
        let ran = used.run(&in_task, run, &leave).await;
        // One that never had a kernel is none.
        if used.is_default && !used.was_used() {
            in_task.contexts.remove(&used);
        }
        let _ = sender.send(ran);
    });
    let ran = receiver.await.map_err(|error| internal("cannot run the code", error))??;
    Ok(answer(&context.view(&guest.workdir()), &ran))
}

/// What came of code is JSON already, and may be long.
fn answer(context: &View, ran: &Ran) -> Vec<u8> {
    let mut out = b"{\"context\":".to_vec();
    out.extend(json(context));
    if let Some(end) = &ran.lost_before {
        out.extend_from_slice(b",\"lostBefore\":");
        out.extend(json(end));
    }
    let milliseconds = u64::try_from(ran.duration.as_millis()).unwrap_or(u64::MAX);
    out.extend_from_slice(format!(",\"durationMs\":{milliseconds},\"executed\":").as_bytes());
    out.extend_from_slice(&ran.executed);
    out.push(b'}');
    out
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec())
}

/// Ends a context's kernel; the next code has a new one.
///
/// # Errors
/// `not_found`.
pub async fn restart(guest: &Shared, asked: Named) -> Result<View> {
    let context = guest.contexts.find(&asked.id)?;
    context.restart().await;
    Ok(context.view(&guest.workdir()))
}

/// Ends a context.
///
/// # Errors
/// `not_found`.
pub async fn delete(guest: &Shared, asked: Named) -> Result<Empty> {
    let context = guest.contexts.find(&asked.id)?;
    guest.contexts.remove(&context);
    context.delete().await;
    Ok(Empty {})
}
