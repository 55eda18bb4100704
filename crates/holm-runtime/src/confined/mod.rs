//! Work on hostile bytes, by a process that can reach one directory and nothing else.
//!
//! Three processes, from outside in: whoever has the work ([`Worker`]); a *warden*, this very program
//! started anew by `__confined`, which has one thread and so may clone; and the worker, PID 1 of
//! namespaces of its own, whose root is the directory. It reads its task and its input from standard
//! input, answers one report on standard output, and has no other descriptor. What the work is, only
//! the caller knows.
//!
//! | layer | what it takes away |
//! | --- | --- |
//! | user namespace | every right over what is not the directory's |
//! | mount namespace, `pivot_root` | every file but those below the directory; no /proc, no /dev |
//! | network, ipc, pid, uts namespace | every way to others |
//! | mount attributes | devices, set-id bits and programs in the directory |
//! | capabilities | all but those that owners, modes and file capabilities need |
//! | system call filter | all but reading, writing and making files (`x86_64.confined.table`) |
//! | limits | memory, descriptors, core files |

mod inside;
mod warden;
mod worker;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::{self, IdMap};

pub use inside::Inside;
pub use warden::main;
pub use worker::Worker;

/// The argument that makes this program a warden.
pub const ARGUMENT: &str = "__confined";

/// What a worker is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// Its root. Belongs to the caller alone.
    pub directory: PathBuf,
    /// Bytes of memory that it may map.
    pub memory_bytes: u64,
    /// The work, as the caller says it.
    pub task: String,
}

/// How ids in the directory relate to ids that the worker sees: as root they are the same, for an
/// ordinary user they are mapped as in the user's sandboxes.
#[must_use]
pub fn id_map() -> IdMap {
    if ids::is_machine_root() { IdMap::Range { start: 0 } } else { ids::for_user() }
}

/// The last id that a worker can give to a file; none where everything belongs to the user.
#[must_use]
pub fn last_id(map: IdMap) -> Option<u32> {
    match map {
        IdMap::Range { .. } => Some(ids::INSIDE - 1),
        IdMap::Subordinate { len, .. } => Some(len.min(ids::INSIDE - 1)),
        IdMap::Single { .. } => None,
    }
}
