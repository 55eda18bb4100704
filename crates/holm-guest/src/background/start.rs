//! `StartBackground`.

use std::time::Duration;

use holm_wire::background::{StartRequest, Started};
use tokio::time::Instant;

use super::job::Job;
use crate::command::plan::{Becomes, Command};
use crate::command::run::limit;
use crate::command::spawn::{Input, spawn};
use crate::errors::Result;
use crate::state::Shared;

/// Starts a command and follows it to its end, whoever asks meanwhile.
///
/// # Errors
/// When it cannot be started; a program that is not there ends at once, with code 127.
pub async fn start(guest: Shared, asked: StartRequest) -> Result<Started> {
    guest.configured().await;
    let limit = limit("outputLimit", asked.output_limit)?;
    let shown = match &asked.argv[..] {
        // What the caller wrote, not how it is run.
        [shell, flag, line] if shell == "/bin/sh" && flag == "-c" => line.clone(),
        argv => argv.join(" "),
    };
    let command = Command {
        argv: asked.argv,
        env: asked.env,
        cwd: asked.cwd,
        default_cwd: guest.workdir(),
        user: guest.users.find(&asked.user)?,
        becomes: Becomes::Program,
    };
    let place = guest.background.place()?;
    let input = if asked.stdin { Input::Pipe } else { Input::None };
    let child = spawn(&guest, &command, input)?;
    let pid = child.started().await?;
    let deadline = match asked.timeout_ms {
        0 => None,
        ms => Instant::now().checked_add(Duration::from_millis(ms)),
    };
    let id = place.id.clone();
    let job = Job::new(child, id.clone(), pid, cut(&shown), limit);
    place.take(&job);
    let list = Shared::clone(&guest);
    tokio::task::spawn_local(async move {
        job.watch(deadline).await;
        list.background.make_room();
    });
    Ok(Started { id, pid })
}

/// As much of a command line as a list needs.
fn cut(line: &str) -> String {
    const MOST: usize = 200;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
