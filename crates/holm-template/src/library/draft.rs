//! What is being made: a directory that is locked by who makes it, and removed unless it is finished.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use holm_runtime::confined::{Order, Worker};
use rustix::fs::{FlockOperation, flock};

use super::{Library, same_file};
use crate::error::{Attempt as _, Result, TemplateError};
use crate::unpack::{Limits, Task, Unpacked};

/// Where a layer's files are in a draft that takes the layer away.
pub(super) const TAKEN: &str = "layer";
const TAKEN_TREE: &str = "layer/tree";

/// A draft.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    library: Library,
    lock: Option<File>,
}

impl Draft {
    pub(crate) fn make(library: &Library) -> Result<Self> {
        loop {
            let path = library.images.join("drafts").join(random()?);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                other => other.tried("make a draft")?,
            }
            // A sweep may be faster than the lock, and take it away. Shared, because a finished layer's
            // lock must never be let go, and no lock can be changed without that.
            let shared = FlockOperation::NonBlockingLockShared;
            if let Some(draft) = Self::lock(library, path, shared)? {
                return Ok(draft);
            }
        }
    }

    /// Takes a draft that nobody has locked.
    pub(super) fn take(library: &Library, path: PathBuf) -> Result<Option<Self>> {
        Self::lock(library, path, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock(library: &Library, path: PathBuf, how: FlockOperation) -> Result<Option<Self>> {
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).tried("open a draft"),
        };
        if flock(&lock, how).is_err() || !same_file(&lock, &path)? {
            return Ok(None);
        }
        Ok(Some(Self { path, library: library.clone(), lock: Some(lock) }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory of a layer's files.
    pub(crate) fn tree(&self) -> Result<PathBuf> {
        let tree = self.path.join("tree");
        // What an image does not say of its root is what roots are like.
        DirBuilder::new().mode(0o755).create(&tree).tried("make a draft")?;
        rustix::fs::chmod(&tree, rustix::fs::Mode::from_raw_mode(0o755)).tried("make a draft")?;
        Ok(tree)
    }

    /// Moves it to its place. Its lock goes along. Gives it back when something is there.
    pub(super) fn finish(mut self, to: &Path) -> Result<std::result::Result<File, Self>> {
        let cwd = rustix::fs::CWD;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(cwd, &self.path, cwd, to, flags) {
            Ok(()) => {
                let lock = self.lock.take();
                lock.map(Ok).ok_or_else(|| TemplateError::internal("a draft without a lock"))
            }
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Ok(Err(self)),
            Err(errno) => Err(errno).tried("finish a draft"),
        }
    }

    /// Removes it, and says whether that worked.
    pub(super) fn remove(mut self) -> Result<()> {
        let removed = self.clear();
        self.lock = None;
        removed
    }

    fn clear(&self) -> Result<()> {
        for tree in ["tree", TAKEN_TREE].map(|tree| self.path.join(tree)) {
            if fs::symlink_metadata(&tree).is_ok() {
                // By who may: the files have ids that are not the user's, and hostile names.
                run(&self.library, &tree, &Task::Remove, Limits::default().memory_bytes)?
                    .finish()?;
                fs::remove_dir(&tree).tried("remove a draft")?;
            }
        }
        fs::remove_dir_all(&self.path).tried("remove a draft")
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.lock.is_none() {
            return;
        }
        if let Err(error) = self.clear() {
            // The next start or prune removes it.
            tracing::warn!(error = %error.internal, "a draft could not be removed");
        }
    }
}

/// A confined worker with its task.
pub(crate) struct Confined(pub(crate) Worker);

/// Starts a worker in a directory.
pub(crate) fn run(
    library: &Library,
    directory: &Path,
    task: &Task,
    memory_bytes: u64,
) -> Result<Confined> {
    let task = serde_json::to_string(task)
        .map_err(|error| TemplateError::internal(format!("write a task: {error}")))?;
    let directory = std::path::absolute(directory).tried("find a draft")?;
    let order = Order { directory, memory_bytes, task };
    Ok(Confined(Worker::start(library.program(), &order)?))
}

impl Confined {
    /// Ends the input, and gives what became of the task.
    pub(crate) fn finish(self) -> Result<Unpacked> {
        let report = self.0.finish()?;
        serde_json::from_str::<Result<Unpacked>>(&report)
            .map_err(|error| TemplateError::internal(format!("read a worker's report: {error}")))?
    }
}

/// A name that nobody else has.
fn random() -> Result<String> {
    let mut bytes = [0_u8; 12];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .tried("take random bytes")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
