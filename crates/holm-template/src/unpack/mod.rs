//! Unpacking one layer, in a confined worker ([`holm_runtime::confined`]): what comes is hostile.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`task`] | what a worker is asked, and what it answers |
//! | [`inflate`] | the compressed stream, counted and hashed |
//! | [`name`] | names of entries: parts below the root, or refused |
//! | [`tree`] | calls that make files, each beneath the root and through no link |
//! | [`entry`] | what each kind of entry makes |
//! | [`marker`] | whiteouts and opaque directories |
//! | [`xattr`] | which extended attributes are kept |
//! | [`remove`] | the way back |

mod entry;
mod inflate;
mod marker;
mod name;
mod remove;
mod task;
mod tree;
mod xattr;

use holm_runtime::confined::Inside;

use crate::error::{Result, TemplateError, TemplateErrorKind};
use crate::tar::{Fault, Reader};
use tree::Tree;

pub(crate) use inflate::guess;
pub(crate) use name::show;
pub(crate) use task::{Form, Task, Unpack, Unpacked};
pub use task::{Limits, Packing};

/// Is a confined worker, where this program was started as one
/// ([`holm_runtime::confined::ARGUMENT`]). To be called first in `main`, while there is one thread.
pub fn main() -> ! {
    holm_runtime::confined::main(work)
}

/// Does one task.
fn work(inside: Inside) -> String {
    let result = serde_json::from_str(&inside.task)
        .map_err(|error| TemplateError::internal(format!("read a task: {error}")))
        .and_then(|task| match task {
            Task::Unpack(task) => unpack(inside, &task),
            Task::Remove => remove::everything(&inside.root).map(|()| Unpacked::default()),
        });
    serde_json::to_string(&result).unwrap_or_default()
}

fn unpack(inside: Inside, task: &Unpack) -> Result<Unpacked> {
    let stream =
        inflate::open(task.packing, inside.input).map_err(|error| stream_error(error.into()))?;
    let mut archive = Reader::new(inflate::Meter::new(stream, task.limits.bytes));
    let mut tree = Tree::new(inside.root, task);
    let mut done = Unpacked::default();
    while let Some(entry) = archive.next().map_err(stream_error)? {
        done.entries += 1;
        if done.entries > task.limits.entries {
            return Err(TemplateError::new(
                TemplateErrorKind::TooLarge,
                format!("the layer has more than {} entries", task.limits.entries),
            ));
        }
        entry::make(&mut tree, &mut archive, &entry, &mut done)?;
    }
    archive.drain().map_err(stream_error)?;
    tree.finish()?;
    done.bytes = tree.written();
    done.diff_id = Some(archive.into_inner().digest());
    Ok(done)
}

/// What is wrong with the archive or its stream, as an error.
fn stream_error(fault: Fault) -> TemplateError {
    match fault {
        Fault::Broken(text) => TemplateError::new(
            TemplateErrorKind::Refused,
            format!("the layer's archive is broken: {text}"),
        ),
        Fault::Short => TemplateError::new(
            TemplateErrorKind::Damaged,
            "the layer's archive breaks off; fetch or export the image again",
        ),
        Fault::Io(error) => match inflate::overrun(&error) {
            Some(most) => TemplateError::new(
                TemplateErrorKind::TooLarge,
                format!("the layer unpacks to more than {most} bytes"),
            ),
            None => TemplateError::new(
                TemplateErrorKind::Damaged,
                format!("the layer cannot be decompressed: {error}"),
            ),
        },
    }
}

impl From<Fault> for TemplateError {
    fn from(fault: Fault) -> Self {
        stream_error(fault)
    }
}
