//! What the whole guest shares: settings, users, supervisors, processes, watchers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;

use holm_wire::guest::Configure;

use crate::files::pool::Pool;
use crate::identity::{User, Users};
use crate::process::registry::Registry;

/// `PATH` of commands.
pub const PATH: &str =
    "/home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where commands start unless the host says otherwise.
pub const WORKDIR: &str = "/workspace";

/// The guest. One thread uses it, so it needs no locks.
#[derive(Debug)]
pub struct Guest {
    /// Whom it can act as.
    pub users: Users,
    /// PID 1 of a sandbox, not a process of somebody's own machine.
    pub in_sandbox: bool,
    /// What the host said.
    pub settings: RefCell<Configure>,
    /// True once it has, and from the start where no host does.
    pub configured: tokio::sync::watch::Sender<bool>,
    /// File threads.
    pub files: Pool,
    /// Supervisors that live. Every other child of the guest is an orphan.
    pub supervisors: RefCell<HashSet<i32>>,
    /// Programs started by `process.Process`.
    pub processes: Registry,
    /// Commands in the background.
    pub background: crate::background::list::Background,
    /// Contexts, in which kernels keep variables.
    pub contexts: crate::contexts::list::Contexts,
    /// The guest's own program, to start it once more.
    pub own: Option<OwnedFd>,
    /// What was measured about the confinement.
    pub measured: crate::probe::First,
    /// Polling watchers.
    pub watchers: crate::files::watch::Watchers,
    /// /dev/null for standard input.
    pub null: OwnedFd,
    /// `RLIMIT_NOFILE` for commands.
    pub open_files: (u64, u64),
    /// Level of Landlock; 0 means none.
    pub landlock: u32,
    /// Rule sets already made.
    pub rulesets: crate::command::confine::Rulesets,
    /// Processor time at the last look, for `/metrics`.
    pub cpu_sample: Cell<(u64, u64)>,
}

/// Shared by all tasks of the one thread.
pub type Shared = Rc<Guest>;

impl Guest {
    /// Waits for the host's settings. The host may send its first command together with them.
    pub async fn configured(&self) {
        // The sender is ours, so it is there.
        let _ = self.configured.subscribe().wait_for(|done| *done).await;
    }

    /// Where commands of `holm.guest.v1` start and its relative paths begin.
    pub fn workdir(&self) -> String {
        let settings = self.settings.borrow();
        if settings.workdir.is_empty() { WORKDIR.to_owned() } else { settings.workdir.clone() }
    }

    /// The variables of every command of `user`, without the caller's own.
    pub fn environment(&self, user: &User) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (name, value) in [
            ("PATH", PATH),
            ("HOME", &user.home),
            ("USER", &user.name),
            ("LOGNAME", &user.name),
            ("SHELL", &user.shell),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("PYTHONUNBUFFERED", "1"),
            ("HOLM_SANDBOX", "1"),
        ] {
            env.insert(name.to_owned(), value.to_owned());
        }
        let settings = self.settings.borrow();
        env.extend(settings.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        env
    }
}
