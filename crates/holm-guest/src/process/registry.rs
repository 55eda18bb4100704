//! Which programs there are.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::process::{
    Empty, ListResponse, ProcessInfo, ProcessSelector, SendInputRequest, SendSignalRequest,
    UpdateRequest,
};
use tokio::time::Instant;

use super::program::Program;
use super::signals;
use crate::errors::{Result, invalid};

/// Programs that run at once.
const MOST: usize = 512;
/// Ended programs whose end can still be asked for.
const ENDED: usize = 64;
/// For how long.
const REMEMBER: Duration = Duration::from_secs(600);

/// All programs.
#[derive(Debug, Default)]
pub struct Registry {
    running: RefCell<BTreeMap<u32, Rc<Program>>>,
    ended: RefCell<VecDeque<(Instant, Rc<Program>)>>,
}

fn matches(program: &Program, selector: &ProcessSelector) -> bool {
    match (selector.pid, &selector.tag) {
        (Some(pid), _) => program.pid == pid,
        (None, Some(tag)) => program.tag.as_ref() == Some(tag),
        (None, None) => false,
    }
}

fn unknown(selector: &ProcessSelector) -> Error {
    let text = match (selector.pid, &selector.tag) {
        (Some(pid), _) => format!("no process {pid} was started here, or it has ended"),
        (None, Some(tag)) => {
            format!("no process with the tag {tag:?} was started here, or it has ended")
        }
        (None, None) => return invalid("name the process by `pid` or by `tag`"),
    };
    Error::new(Code::NotFound, text)
}

impl Registry {
    /// Refuses one more program when there are too many.
    ///
    /// # Errors
    /// `resource_exhausted`.
    pub fn check_room(&self) -> Result<()> {
        if self.running.borrow().len() < MOST {
            return Ok(());
        }
        let text = format!("{MOST} processes run already; end some first");
        Err(Error::new(Code::ResourceExhausted, text))
    }

    /// Adds a program that runs.
    pub fn add(&self, program: &Rc<Program>) {
        self.ended.borrow_mut().retain(|(_, old)| old.pid != program.pid);
        self.running.borrow_mut().insert(program.pid, Rc::clone(program));
    }

    /// It has ended.
    pub fn retire(&self, program: &Rc<Program>) {
        self.running.borrow_mut().retain(|_, other| !Rc::ptr_eq(other, program));
        let mut ended = self.ended.borrow_mut();
        let now = Instant::now();
        ended.retain(|(when, _)| *when + REMEMBER > now);
        while ended.len() >= ENDED {
            ended.pop_front();
        }
        ended.push_back((now, Rc::clone(program)));
    }

    /// A program that runs.
    ///
    /// # Errors
    /// `not_found`.
    pub fn running(&self, selector: &ProcessSelector) -> Result<Rc<Program>> {
        let running = self.running.borrow();
        let found = running.values().rev().find(|program| matches(program, selector));
        found.cloned().ok_or_else(|| unknown(selector))
    }

    /// A program that runs or has ended not long ago.
    ///
    /// # Errors
    /// `not_found`.
    pub fn find(&self, selector: &ProcessSelector) -> Result<Rc<Program>> {
        self.running(selector).or_else(|error| {
            let ended = self.ended.borrow();
            let found = ended.iter().rev().find(|(_, program)| matches(program, selector));
            found.map(|(_, program)| Rc::clone(program)).ok_or(error)
        })
    }

    /// What runs.
    pub fn list(&self) -> ListResponse {
        let running = self.running.borrow();
        let info = |program: &Rc<Program>| ProcessInfo {
            config: program.config.clone(),
            pid: program.pid,
            tag: program.tag.clone(),
        };
        ListResponse { processes: running.values().map(info).collect() }
    }

    /// `SendInput`.
    ///
    /// # Errors
    /// See [`Program::feed`].
    pub async fn send_input(&self, request: SendInputRequest) -> Result<Empty> {
        self.running(&request.process)?.feed(&request.input).await?;
        Ok(Empty {})
    }

    /// `CloseStdin`.
    ///
    /// # Errors
    /// See [`Program::close_stdin`].
    pub async fn close_stdin(&self, selector: &ProcessSelector) -> Result<Empty> {
        self.running(selector)?.close_stdin().await?;
        Ok(Empty {})
    }

    /// `SendSignal`.
    ///
    /// # Errors
    /// When there is no such signal or process.
    pub async fn send_signal(&self, request: &SendSignalRequest) -> Result<Empty> {
        let signal = signals::number(&request.signal)
            .ok_or_else(|| invalid(format!("there is no signal {:?}", request.signal)))?;
        let program = self.running(&request.process)?;
        if program.signal(signal).await { Ok(Empty {}) } else { Err(unknown(&request.process)) }
    }

    /// `Update`.
    ///
    /// # Errors
    /// When it does not run on a terminal.
    pub fn update(&self, request: &UpdateRequest) -> Result<Empty> {
        let program = self.running(&request.process)?;
        if let Some(pty) = request.pty {
            program.resize(pty.size)?;
        }
        Ok(Empty {})
    }
}
