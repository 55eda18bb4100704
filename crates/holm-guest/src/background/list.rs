//! Which commands there are in the background.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use holm_wire::background::{
    Command as View, GetRequest, InputRequest, KillRequest, LONGEST_WAIT_MS, List, MOST_ENDED,
    MOST_RUNNING,
};
use holm_wire::connect::{Code, Error};
use holm_wire::process::Empty;
use tokio::time::Instant;

use super::job::Job;
use crate::errors::{Result, invalid, shorten};
use crate::process::signals;

/// Bytes that are kept of all commands that have ended; what ended first loses its output.
const ENDED_BYTES: usize = 16 << 20;
/// How long one write to standard input may wait.
const FEED: Duration = Duration::from_secs(20);

/// All of them, in the order in which they began.
#[derive(Debug, Default)]
pub struct Background {
    jobs: RefCell<VecDeque<Rc<Job>>>,
    starting: Cell<usize>,
    last: Cell<u64>,
}

/// A place for one more, until it is added.
#[derive(Debug)]
pub struct Place<'a> {
    list: &'a Background,
    /// Its id, which nobody had before.
    pub id: String,
}

impl Place<'_> {
    /// Adds it; it runs.
    pub fn take(self, job: &Rc<Job>) {
        self.list.jobs.borrow_mut().push_back(Rc::clone(job));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.list.starting.set(self.list.starting.get() - 1);
    }
}

impl Background {
    /// A place for one more.
    ///
    /// # Errors
    /// `resource_exhausted` when too many run.
    pub fn place(&self) -> Result<Place<'_>> {
        let running = self.jobs.borrow().iter().filter(|job| job.runs()).count();
        if running + self.starting.get() >= MOST_RUNNING {
            let text = format!(
                "{MOST_RUNNING} commands run in the background of this sandbox; end some first"
            );
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        self.starting.set(self.starting.get() + 1);
        self.last.set(self.last.get() + 1);
        Ok(Place { list: self, id: format!("cmd_{}", self.last.get()) })
    }

    /// One has ended: the oldest of those that have make room.
    pub fn make_room(&self) {
        let mut jobs = self.jobs.borrow_mut();
        while jobs.iter().filter(|job| !job.runs()).count() > MOST_ENDED
            && let Some(first) = jobs.iter().position(|job| !job.runs())
        {
            jobs.remove(first);
        }
        let mut kept: usize = jobs.iter().filter(|job| !job.runs()).map(|job| job.kept()).sum();
        for job in jobs.iter().filter(|job| !job.runs()) {
            if kept <= ENDED_BYTES {
                break;
            }
            kept -= job.kept();
            job.forget_output();
        }
    }

    fn find(&self, id: &str) -> Result<Rc<Job>> {
        let jobs = self.jobs.borrow();
        let found = jobs.iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| {
            let text = format!(
                "no command {} was started in the background here, or it ended long ago",
                shorten(id)
            );
            Error::new(Code::NotFound, text)
        })
    }

    /// How one is, and what it wrote since.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn get(&self, asked: &GetRequest) -> Result<View> {
        let job = self.find(&asked.id)?;
        if asked.wait_ms > 0 {
            let wait = Duration::from_millis(asked.wait_ms.min(LONGEST_WAIT_MS));
            let until = Instant::now() + wait;
            job.news_after(asked.stdout_from, asked.stderr_from, until).await;
        }
        Ok(job.view(asked))
    }

    /// All of them, without output.
    pub fn list(&self) -> List {
        List { commands: self.jobs.borrow().iter().map(|job| job.head()).collect() }
    }

    /// Writes to one's standard input.
    ///
    /// # Errors
    /// `not_found`, and see [`Job::feed`].
    pub async fn feed(&self, asked: InputRequest) -> Result<Empty> {
        self.find(&asked.id)?.feed(&asked.data, asked.close, FEED).await?;
        Ok(Empty {})
    }

    /// Ends one, or sends it another signal. One that has ended stays as it was.
    ///
    /// # Errors
    /// `not_found`; when there is no such signal.
    pub async fn kill(&self, asked: &KillRequest) -> Result<View> {
        let signal = match asked.signal.as_str() {
            "" => libc::SIGKILL,
            name => signals::number(name)
                .ok_or_else(|| invalid(format!("there is no signal {}", shorten(name))))?,
        };
        let job = self.find(&asked.id)?;
        job.kill(signal).await;
        Ok(job.head())
    }
}
