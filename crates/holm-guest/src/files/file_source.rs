//! A large file on its way out, part by part.

use std::ffi::CString;
use std::fs::File;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;

use super::gzip::Packer;
use super::pool::Pool;
use super::read::{self, CHUNK};
use crate::errors::{Result, internal};
use crate::identity::User;
use crate::server::body::Source;

/// Buffers that were sent and can be filled again: new ones of this size would be fresh pages from
/// the kernel each time.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer on its way out.
struct Lent {
    bytes: Vec<u8>,
    home: Spare,
}

impl Spare {
    fn take(&self) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.pop().unwrap_or_default()
    }

    fn lend(&self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Lent { bytes, home: self.clone() })
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
    }
}

/// How much was read, and what of it goes out now.
type Part = Result<(u64, Bytes)>;
type Reading = Pin<Box<dyn Future<Output = Result<(Option<Packer>, Part)>>>>;

/// A large file, read part by part as the peer takes them.
pub struct FileSource {
    pool: Pool,
    user: User,
    path: CString,
    file: Arc<File>,
    offset: u64,
    left: u64,
    packer: Option<Packer>,
    reading: Option<Reading>,
    spare: Spare,
}

impl Source for FileSource {
    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>> {
        let this = &mut *self;
        while this.left > 0 {
            let result = std::task::ready!(this.reading().as_mut().poll(context));
            this.reading = None;
            let result = result.and_then(|(packer, part)| {
                this.packer = packer;
                part
            });
            match result {
                // The file became shorter: the length that was promised cannot be kept.
                Ok((0, _)) => {
                    return Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())));
                }
                Ok((length, bytes)) => {
                    this.offset += length;
                    this.left = this.left.saturating_sub(length);
                    if !bytes.is_empty() {
                        if this.left > 0 {
                            // The next part is read while this one is on its way.
                            this.reading();
                        }
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Err(error) => return Poll::Ready(Some(Err(std::io::Error::other(error)))),
            }
        }
        Poll::Ready(None)
    }
}

impl FileSource {
    /// Reads `left` bytes from `offset`; a packer compresses them.
    pub fn new(
        pool: &Pool,
        user: &User,
        (path, file): (CString, File),
        (offset, left): (u64, u64),
        packer: Option<Packer>,
    ) -> Self {
        Self {
            pool: pool.clone(),
            user: user.clone(),
            path,
            file: Arc::new(file),
            offset,
            left,
            packer,
            reading: None,
            spare: Spare::default(),
        }
    }

    /// The read under way, or a new one. Compressing is work for the file threads as well.
    fn reading(&mut self) -> &mut Reading {
        self.reading.get_or_insert_with(|| {
            let (left, offset, mut packer) = (self.left, self.offset, self.packer.take());
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let (file, path) = (Arc::clone(&self.file), self.path.clone());
            let spare = self.spare.clone();
            let work = move || {
                let mut bytes = spare.take();
                let read = read::read_into(&file, &path, offset, most, &mut bytes);
                let part = read.and_then(|()| {
                    let length = bytes.len() as u64;
                    let out = match &mut packer {
                        Some(packer) => packer
                            .pack(&bytes, length >= left)
                            .map(Bytes::from)
                            .map_err(|error| internal("cannot compress", error))?,
                        None => spare.lend(bytes),
                    };
                    Ok((length, out))
                });
                (packer, part)
            };
            Box::pin(self.pool.begin(&self.user, work).end())
        })
    }
}
