//! Layers brought into the library, all of them before the first one is put in its place; then the
//! template recorded.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use holm_runtime::confined;
use sha2::{Digest as _, Sha256};

use super::{Progress, Request, rootfs};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::{Digest, LayerId};
use crate::library::{Confined, Draft, Facts, LayerLock, Library, run};
use crate::template::{Template, TemplateConfig};
use crate::unpack::{Form, Packing, Task, Unpack, Unpacked};

const BUFFER: usize = 256 << 10;

/// An image that is known, but not brought.
pub(crate) struct Image<'a> {
    /// Bottom to top.
    pub layers: Vec<Source<'a>>,
    pub config: TemplateConfig,
    pub source: String,
}

/// Where a layer is from, and what it must be.
pub(crate) struct Source<'a> {
    pub packing: Packing,
    /// Of the bytes as they are stored.
    pub digest: Option<Digest>,
    pub size: Option<u64>,
    /// Of the archive in them.
    pub diff_id: Option<LayerId>,
    pub content: Content<'a>,
}

type Open<'a> = Box<dyn FnOnce() -> Result<(Box<dyn Read + 'a>, u64)> + 'a>;

pub(crate) enum Content<'a> {
    /// Bytes, with their length.
    Blob(Open<'a>),
    /// A directory, to be made into an archive.
    Directory(PathBuf),
}

/// A layer on its way.
enum Layer {
    /// It was there.
    There(LayerLock),
    /// The same as one below.
    Again(LayerId),
    New(LayerId, Draft, Facts),
}

/// Brings all layers, and records the template.
pub(crate) fn assemble(
    library: &Library,
    request: &Request,
    image: Image<'_>,
    progress: &dyn Progress,
) -> Result<Template> {
    let count = image.layers.len();
    let mut layers: Vec<Layer> = Vec::new();
    for (index, source) in image.layers.into_iter().enumerate() {
        let about = format!("layer {} of {count}", index + 1);
        let layer = bring(library, request, source, &layers, (index, count, progress));
        layers.push(layer.map_err(|error| if count == 1 { error } else { error.of(&about) })?);
    }
    let locks = settle(library, layers)?;
    let order: Vec<LayerId> = locks.iter().map(|(id, _)| id.clone()).collect();
    let bytes = locks.iter().filter_map(|(_, lock)| lock.as_ref()).map(|lock| lock.bytes).sum();
    let held: Vec<LayerLock> = locks.into_iter().filter_map(|(_, lock)| lock).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let template = Template {
        name: request.name.clone(),
        layers: order,
        config: image.config,
        source: image.source,
        bytes,
        created: now.map_or(0, |now| now.as_secs()),
        on_host: false,
        written: None,
    };
    library.record(&template, request.replace, &held)?;
    Ok(template)
}

/// Puts finished layers in their places.
fn settle(library: &Library, layers: Vec<Layer>) -> Result<Vec<(LayerId, Option<LayerLock>)>> {
    if let Some(draft) = layers.iter().find_map(|layer| match layer {
        Layer::New(_, draft, _) => Some(draft),
        _ => None,
    }) {
        // What is named after this is there also when the power fails.
        let disk = File::open(draft.path()).tried("open a draft")?;
        rustix::fs::syncfs(&disk).tried("write layers to the disk")?;
    }
    let settle = |layer| match layer {
        Layer::There(lock) => Ok((lock.id.clone(), Some(lock))),
        Layer::Again(id) => Ok((id, None)),
        Layer::New(id, draft, facts) => {
            library.add_layer(&id, draft, &facts).map(|lock| (id, Some(lock)))
        }
    };
    layers.into_iter().map(settle).collect()
}

fn bring(
    library: &Library,
    request: &Request,
    source: Source<'_>,
    below: &[Layer],
    (index, count, progress): (usize, usize, &dyn Progress),
) -> Result<Layer> {
    if let Some(id) = &source.diff_id {
        if has(below, id) {
            progress.shared(index, count);
            return Ok(Layer::Again(id.clone()));
        }
        if let Some(lock) = library.layer(id)? {
            progress.shared(index, count);
            return Ok(Layer::There(lock));
        }
    }
    let draft = Draft::make(library)?;
    let ids = confined::id_map();
    let task = Task::Unpack(Unpack {
        packing: source.packing,
        form: Form::Image,
        limits: request.limits,
        last_id: confined::last_id(ids),
    });
    let wanted = source.diff_id.clone();
    let packed = source.packing != Packing::Plain;
    let unpacked = {
        let worker = || run(library, &draft.tree()?, &task, request.limits.memory_bytes);
        feed(worker, source, |bytes| progress.layer(index, count, bytes), progress)?
    };
    let id = unpacked
        .diff_id
        .clone()
        .ok_or_else(|| TemplateError::internal("a layer without a digest"))?;
    match wanted {
        Some(wanted) if wanted != id => {
            return Err(TemplateError::new(
                TemplateErrorKind::Damaged,
                format!("its content is not what the image's config says ({wanted})"),
            ));
        }
        // What is not compressed was looked at before.
        None if unpacked.image && packed => {
            return Err(TemplateError::new(
                TemplateErrorKind::NotAnImage,
                "it is a compressed archive of an image, not a root file system; decompress it first",
            ));
        }
        _ => {}
    }
    if has(below, &id) {
        return Ok(Layer::Again(id));
    }
    if unpacked.devices > 0 {
        tracing::info!(devices = unpacked.devices, layer = %id, "devices of a layer were left out");
    }
    if let Some(lock) = library.layer(&id)? {
        return Ok(Layer::There(lock));
    }
    let facts = Facts { ids, bytes: unpacked.bytes, entries: unpacked.entries };
    Ok(Layer::New(id, draft, facts))
}

fn has(layers: &[Layer], id: &LayerId) -> bool {
    layers.iter().any(|layer| match layer {
        Layer::There(lock) => lock.id == *id,
        Layer::Again(own) | Layer::New(own, ..) => own == id,
    })
}

/// Sends a layer to a worker, verified on the way, and gives what became of it.
fn feed(
    worker: impl FnOnce() -> Result<Confined>,
    source: Source<'_>,
    begin: impl FnOnce(Option<u64>),
    progress: &dyn Progress,
) -> Result<Unpacked> {
    match source.content {
        Content::Directory(path) => {
            begin(None);
            let mut worker = worker()?;
            let sent = rootfs::write(&path, &mut Counted(&mut worker.0, progress));
            conclude(worker, sent)
        }
        Content::Blob(open) => {
            let (content, length) = open()?;
            if source.size.is_some_and(|size| size != length) {
                return Err(differs(source.digest.as_ref(), "has another length"));
            }
            begin(Some(length));
            let mut worker = worker()?;
            let mut hash = Sha256::new();
            let sent = send(content, length, &mut hash, &mut worker, progress);
            let whole = !matches!(sent, Err(_) | Ok(false));
            let unpacked = conclude(worker, sent.map(drop));
            match &source.digest {
                // What is wrong with the bytes explains whatever became of them.
                Some(digest) if whole && Digest::of(hash) != *digest => {
                    Err(differs(Some(digest), "has other bytes"))
                }
                _ => unpacked,
            }
        }
    }
}

/// Sends all of it. To the end also when the worker wants no more, so that its digest is known; false
/// where that would be long.
fn send(
    mut content: Box<dyn Read + '_>,
    length: u64,
    hash: &mut Sha256,
    worker: &mut Confined,
    progress: &dyn Progress,
) -> Result<bool> {
    const WORTH_READING: u64 = 256 << 20;
    let mut buffer = vec![0; BUFFER];
    let mut wanted = true;
    let mut left = length;
    loop {
        let read = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(error)),
        };
        hash.update(&buffer[..read]);
        left = left.saturating_sub(read as u64);
        progress.advance(read as u64);
        if wanted {
            match worker.0.write_all(&buffer[..read]) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => wanted = false,
                other => other.tried("send a layer to its worker")?,
            }
        }
        if !wanted && left > WORTH_READING {
            return Ok(false);
        }
    }
    if left > 0 {
        return Err(TemplateError::new(
            TemplateErrorKind::Damaged,
            format!("the layer breaks off {left} bytes before its end; fetch or export it again"),
        ));
    }
    Ok(true)
}

/// An error of whoever gives the bytes may carry one of ours.
fn unreadable(error: io::Error) -> TemplateError {
    let text = error.to_string();
    let inner = error.into_inner().and_then(|inner| inner.downcast::<TemplateError>().ok());
    match inner {
        Some(own) => *own,
        None => TemplateError::new(
            TemplateErrorKind::Damaged,
            format!("the layer cannot be read: {text}"),
        ),
    }
}

/// What counts is what the worker says, unless there was nothing more to send to it.
fn conclude(worker: Confined, sent: Result<()>) -> Result<Unpacked> {
    match sent {
        Ok(()) => worker.finish(),
        Err(error) => Err(error),
    }
}

fn differs(digest: Option<&Digest>, how: &str) -> TemplateError {
    let digest = digest.map(ToString::to_string).unwrap_or_default();
    TemplateError::new(
        TemplateErrorKind::Damaged,
        format!("the layer {how} than its digest says ({digest}); fetch or export the image again"),
    )
}

/// Tells what passes.
struct Counted<'a, W>(&'a mut W, &'a dyn Progress);

impl<W: io::Write> io::Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = self.0.write(bytes)?;
        self.1.advance(wrote as u64);
        Ok(wrote)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
