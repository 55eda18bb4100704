//! A layer of what a sandbox has written: its archive comes from below the sandbox's root
//! ([`holm_runtime::LayerStream`]), and is unpacked like everything else that is hostile.

use std::fs::File;
use std::io::{self, Read, Write as _};

use holm_runtime::confined;
use sha2::{Digest as _, Sha256};

use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;
use crate::library::{Draft, Facts, Library, Written, run};
use crate::unpack::{Form, Limits, Packing, Task, Unpack};

const BUFFER: usize = 256 << 10;
/// Begins what the id of such a layer is the digest of: no layer of an image, whose archive is read
/// otherwise, can have the same, whatever somebody writes.
const SEED: &[u8] = b"holm: written by a sandbox\n";

impl Library {
    /// Makes a layer of an archive. `whole` is asked after its last byte whether that was the last one:
    /// of a part no layer becomes. Blocks; an ended process, or an error, leaves nothing but what the
    /// next sweep removes.
    ///
    /// # Errors
    /// What `whole` says; when it is larger than `limits`, something in it cannot be kept, or the disk
    /// is full.
    pub fn write_layer<S: Read>(
        &self,
        mut stream: S,
        whole: impl FnOnce(S) -> Result<()>,
        limits: Limits,
    ) -> Result<Written> {
        let draft = Draft::make(self)?;
        let ids = confined::id_map();
        let task = Task::Unpack(Unpack {
            packing: Packing::Plain,
            form: Form::Overlay,
            limits,
            last_id: confined::last_id(ids),
        });
        let mut worker = run(self, &draft.tree()?, &task, limits.memory_bytes)?;
        let mut hash = Sha256::new();
        hash.update(SEED);
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).tried("read what a sandbox has written"),
            };
            hash.update(&buffer[..read]);
            match worker.0.write_all(&buffer[..read]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    // It takes no more, and says why. Whoever writes to us stops now.
                    drop(stream);
                    let text = "a worker took no more without a reason";
                    return worker.finish().and(Err(TemplateError::internal(text)));
                }
                Err(error) => return Err(error).tried("send a layer to its worker"),
            }
        }
        // The worker is killed where it is not.
        whole(stream)?;
        let unpacked = worker.finish()?;
        // Not the worker's word: it has read what a stranger has written.
        let id = Digest::of(hash);
        if let Some(lock) = self.layer(&id)? {
            return Ok(Written { lock });
        }
        // What is named after this is there also when the power fails.
        let disk = File::open(draft.path()).tried("open a draft")?;
        rustix::fs::syncfs(&disk).tried("write layers to the disk")?;
        let facts = Facts { ids, bytes: unpacked.bytes, entries: unpacked.entries };
        self.add_layer(&id, draft, &facts).map(|lock| Written { lock })
    }

    /// Removes a layer that nothing names, once nobody holds it.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn discard(&self, written: Written) -> Result<()> {
        let id = written.id().clone();
        drop(written);
        self.free(&[id])
    }
}

/// The driver's word on an archive as ours.
#[must_use]
pub fn unreadable(error: holm_runtime::DriverError) -> TemplateError {
    let kind = match error.kind {
        holm_runtime::DriverErrorKind::Unkeepable => TemplateErrorKind::Refused,
        _ => TemplateErrorKind::Internal,
    };
    TemplateError { kind, message: error.message, internal: error.internal }
}
