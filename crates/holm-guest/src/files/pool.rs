//! Threads for file work, which may block; the event loop may not.
//!
//! One thread is there from the start, because a fork bomb in the sandbox can use up all process
//! ids and file calls must go on; up to eight come when work waits, and leave when idle. Each
//! acts as the user of the job at hand (see [`crate::sys::ids`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::errors::{Result, internal};
use crate::identity::User;
use crate::sys::child::Ids;
use crate::sys::ids;

/// Threads at most.
const MOST: usize = 8;
/// An extra thread leaves after this time without work.
const IDLE: Duration = Duration::from_secs(5);
/// How long somebody waits for work that is done later.
const SETTLE: Duration = Duration::from_secs(2);
/// The work is a loop over system calls with small buffers.
const STACK: usize = 512 << 10;

type Work = Box<dyn FnOnce(std::io::Result<()>) + Send>;

struct Job {
    ids: Option<Ids>,
    work: Work,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    ready: Condvar,
}

/// The threads. Cheap to clone.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Inner>,
    switch: bool,
    /// Work of [`Pool::later`] that is not done yet.
    open: watch::Sender<usize>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pool").field("switch", &self.switch).finish_non_exhaustive()
    }
}

/// Work under way. Where this is dropped before the work is done, what the work gives is dropped
/// by the thread that did it.
pub struct Begun<T> {
    receiver: oneshot::Receiver<std::io::Result<T>>,
    user: String,
}

impl<T> Begun<T> {
    /// What it gives.
    ///
    /// # Errors
    /// When the thread cannot act as the user.
    pub async fn end(self) -> Result<T> {
        match self.receiver.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(internal(&format!("cannot act as {}", self.user), error)),
            Err(_dropped) => Err(internal("the file work was given up", "its thread ended")),
        }
    }

    /// What it gave, if it is done already.
    pub fn done(mut self) -> Option<T> {
        // From here on the thread keeps what it has.
        self.receiver.close();
        self.receiver.try_recv().ok()?.ok()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Starts with one thread. With `switch` the threads act as the user of each job, otherwise
    /// as whoever the guest is.
    pub fn start(switch: bool) -> std::io::Result<Self> {
        let pool = Self { inner: Arc::default(), switch, open: watch::Sender::new(0) };
        pool.inner.lock().threads = 1;
        pool.thread()?;
        Ok(pool)
    }

    fn thread(&self) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let builder = std::thread::Builder::new().name("files".to_owned()).stack_size(STACK);
        builder.spawn(move || work(&inner)).map(drop)
    }

    /// Does `work` as `user` and gives what it gives.
    ///
    /// # Errors
    /// When the thread cannot act as the user.
    pub async fn run<T: Send + 'static>(
        &self,
        user: &User,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.begin(user, work).end().await
    }

    /// Begins `work` as `user` at once; the caller has something else to do meanwhile.
    pub fn begin<T: Send + 'static>(
        &self,
        user: &User,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Begun<T> {
        let (sender, receiver) = oneshot::channel();
        self.push(
            user,
            Box::new(move |acting| {
                // A caller that is gone needs no answer.
                let _ = sender.send(acting.map(|()| work()));
            }),
        );
        Begun { receiver, user: user.name.clone() }
    }

    /// Does `work` as `user` some time soon; who wants to know when asks [`Self::settled`].
    pub fn later(&self, user: &User, work: impl FnOnce() + Send + 'static) {
        let open = self.open.clone();
        open.send_modify(|count| *count += 1);
        self.push(
            user,
            Box::new(move |acting| {
                if acting.is_ok() {
                    work();
                }
                open.send_modify(|count| *count -= 1);
            }),
        );
    }

    /// Waits until nothing is left to do later, though not for long: others may add to it.
    pub async fn settled(&self) {
        let mut open = self.open.subscribe();
        let _ = tokio::time::timeout(SETTLE, open.wait_for(|count| *count == 0)).await;
    }

    fn push(&self, user: &User, work: Work) {
        let ids = self.switch.then(|| user.ids());
        let grow = {
            let mut state = self.inner.lock();
            state.jobs.push_back(Job { ids, work });
            let grow = state.jobs.len() > state.idle && state.threads < MOST;
            state.threads += usize::from(grow);
            grow
        };
        self.inner.ready.notify_one();
        if grow && self.thread().is_err() {
            // No process id left: the threads there are do it in turn.
            self.inner.lock().threads -= 1;
        }
    }
}

fn work(inner: &Inner) {
    let mut current: Option<Ids> = None;
    let mut state = inner.lock();
    loop {
        if let Some(Job { ids, work }) = state.jobs.pop_front() {
            drop(state);
            let acting = become_user(&mut current, ids);
            work(acting);
            state = inner.lock();
            continue;
        }
        state.idle += 1;
        let (back, waited) = inner
            .ready
            .wait_timeout_while(state, IDLE, |state| state.jobs.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state = back;
        state.idle -= 1;
        if waited.timed_out() && state.jobs.is_empty() && state.threads > 1 {
            state.threads -= 1;
            return;
        }
    }
}

fn become_user(current: &mut Option<Ids>, wanted: Option<Ids>) -> std::io::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let same = current.as_ref().is_some_and(|now| {
        now.uid == wanted.uid && now.gid == wanted.gid && now.groups == wanted.groups
    });
    if !same {
        *current = None;
        ids::act_as(wanted.uid, wanted.gid, &wanted.groups)?;
        *current = Some(wanted);
    }
    Ok(())
}
