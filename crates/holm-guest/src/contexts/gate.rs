//! A bridge, from the guest's side. All of it is a user's, who may have put anything in its place.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::kernel::{End, MOST_ANSWER, START_MS};
use tokio::time::Instant;

use crate::bridge::lines::{Order, Said};
use crate::command::plan::{Becomes, Command};
use crate::command::run::exit_of;
use crate::command::spawn::{Child, End as Ended, Input, spawn};
use crate::errors::{Result, shorten};
use crate::identity::User;
use crate::io::{read_some, write_all};
use crate::state::Shared;

/// What a bridge may take longer than its kernel.
const MORE: Duration = Duration::from_secs(10);
/// How long an order may take to be read.
const FEED: Duration = Duration::from_secs(10);
/// How long the end of one that says nothing more is waited for.
const LAST: Duration = Duration::from_secs(2);

/// A bridge that runs.
#[derive(Debug)]
pub struct Gate {
    child: Child,
    /// The name of its kernel's specification.
    pub kernel: String,
    read: Vec<u8>,
    /// Bytes of that in which no line ends.
    searched: usize,
    errors_open: bool,
}

/// Whose kernel, and where it starts.
#[derive(Debug, Clone)]
pub struct Place {
    /// The language's name.
    pub language: String,
    /// Whose it is.
    pub user: User,
    /// The directory that was named.
    pub cwd: Option<String>,
    /// Variables over those of the sandbox.
    pub env: BTreeMap<String, String>,
}

impl Gate {
    /// Starts a bridge and waits until its kernel is there.
    ///
    /// # Errors
    /// `unimplemented` where there is none of that language, `failed_precondition` and the like of a
    /// command that cannot be started, `unavailable` for a kernel that does not get ready.
    pub async fn start(guest: &Shared, place: &Place) -> Result<Self> {
        let command = Command {
            argv: vec!["holm-kernel".to_owned(), "kernel".to_owned(), place.language.clone()],
            env: place.env.clone(),
            cwd: place.cwd.clone(),
            default_cwd: guest.workdir(),
            user: place.user.clone(),
            becomes: Becomes::Guest,
        };
        let child = spawn(guest, &command, Input::Pipe)?;
        child.started().await?;
        let mut gate =
            Self { child, kernel: String::new(), read: Vec::new(), searched: 0, errors_open: true };
        let until = Instant::now() + Duration::from_millis(START_MS) + MORE;
        let said = tokio::time::timeout_at(until, gate.said()).await;
        let (code, text) = match said {
            Ok(Some(Said::Ready(name))) => {
                gate.kernel = shorten(&name);
                return Ok(gate);
            }
            Ok(Some(Said::Missing(text))) => (Code::Unimplemented, text),
            Ok(Some(Said::Failed(text))) => (Code::Unavailable, text),
            Ok(_) => (Code::Unavailable, "the kernel's bridge ended at its start".to_owned()),
            Err(_elapsed) => (Code::Unavailable, "the kernel did not get ready".to_owned()),
        };
        gate.kill().await;
        Err(Error::new(code, text))
    }

    /// Gives it an order. False when it does not take it.
    pub async fn order(&self, order: &Order) -> bool {
        let Some(stdin) = &self.child.stdin else { return false };
        let line = order.line();
        matches!(tokio::time::timeout(FEED, write_all(stdin, &line)).await, Ok(Ok(())))
    }

    /// What it says next; `None` at its end, and when it says what no bridge says. Can be given up and
    /// asked again.
    pub async fn said(&mut self) -> Option<Said> {
        loop {
            if let Some(end) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.read.split_off(self.searched + end + 1);
                let line = std::mem::replace(&mut self.read, rest);
                self.searched = 0;
                return Said::read(&line[..line.len() - 1]);
            }
            self.searched = self.read.len();
            if self.read.len() > MOST_ANSWER {
                return None;
            }
            let (child, read) = (&self.child, &mut self.read);
            let errors = async {
                match &child.stderr {
                    Some(fd) => read_some(fd, |_| ()).await,
                    None => false,
                }
            };
            tokio::select! {
                more = read_some(&child.stdout, |bytes| read.extend_from_slice(bytes)) => {
                    if !more {
                        return None;
                    }
                }
                more = errors, if self.errors_open => self.errors_open = more,
            }
        }
    }

    /// How it ended, if it does so soon.
    pub async fn end(&self) -> Option<End> {
        match tokio::time::timeout(LAST, self.child.ended()).await {
            Ok(Ended::Status(status)) => {
                let (exit_code, signal) = exit_of(status);
                Some(End { exit_code, signal })
            }
            Ok(Ended::Failed(_)) | Err(_) => None,
        }
    }

    /// Ends it with its kernel and all that the kernel started.
    pub async fn kill(self) {
        self.child.kill().await;
    }
}
