//! Files up and down over `/holm/v1/file`.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;

use holm_wire::guest::FileWritten;
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response, header};

use super::entry::METADATA;
use super::file_source::FileSource;
use super::gzip::{Coding, Packer};
use super::path::{absolute_bytes, show};
use super::pool::{Begun, Pool};
use super::query::Query;
use super::read::{self, CHUNK};
use super::write::Partial;
use crate::errors::{Result, internal, invalid};
use crate::identity::User;
use crate::server::body::{Reply, next_part};
use crate::server::rpc::{self, failure};
use crate::state::{Guest, Shared};

/// The user and the path that a request names.
pub fn target(guest: &Guest, request: &Request<Incoming>) -> Result<(User, CString, Query)> {
    let query = Query::parse(request.uri().query());
    let user = guest.users.find(query.text("user")?)?;
    let path = absolute_bytes(query.bytes("path").unwrap_or(b""), &guest.workdir())?;
    Ok((user, path, query))
}

/// `GET /holm/v1/file`.
pub async fn download(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let result = async {
        let (user, path, query) = target(&guest, &request)?;
        let (offset, limit) = (query.number("offset", 10)?, query.number("limit", 10)?);
        send(&guest.files, &user, path, (offset, limit), Coding::Identity).await
    };
    result.await.unwrap_or_else(|error| failure(&error))
}

/// What the first job finds.
enum Found {
    Whole(Vec<u8>),
    Large(File, u64),
}

/// Opens a file and sends it, from an offset and up to a limit (0: all).
///
/// # Errors
/// When it cannot be read, or is not a regular file.
pub async fn send(
    pool: &Pool,
    user: &User,
    path: CString,
    (offset, limit): (u64, u64),
    coding: Coding,
) -> Result<Response<Reply>> {
    let named = path.clone();
    let open = move || {
        let opened = read::open(&named)?;
        let (size, mode) = (opened.size, opened.mode);
        let found = match opened.length(offset, limit) {
            None => Found::Whole(opened.read_made_up(&named, offset, limit)?),
            Some(length) if length <= CHUNK as u64 => {
                let most = usize::try_from(length).unwrap_or(CHUNK);
                Found::Whole(opened.read_at(&named, offset, most)?)
            }
            Some(length) => Found::Large(opened.file, length),
        };
        let found = match (found, coding) {
            (Found::Whole(bytes), Coding::Gzip) => Found::Whole(packed(&bytes)?),
            (found, _) => found,
        };
        Ok((found, size, mode))
    };
    let (found, size, mode) = pool.run(user, open).await??;
    let (reply, length) = match found {
        Found::Whole(bytes) => (Reply::whole(bytes), None),
        Found::Large(file, left) => {
            let packer = (coding == Coding::Gzip).then(Packer::new);
            let source = FileSource::new(pool, user, (path, file), (offset, left), packer);
            (Reply::parts(source), (coding == Coding::Identity).then_some(left))
        }
    };
    let mut response = Response::new(reply);
    let headers = response.headers_mut();
    put(headers, "content-type", "application/octet-stream");
    put(headers, "x-holm-size", &size.to_string());
    put(headers, "x-holm-mode", &format!("{mode:o}"));
    if coding == Coding::Gzip {
        put(headers, "content-encoding", "gzip");
    }
    if let Some(length) = length {
        put(headers, "content-length", &length.to_string());
    }
    Ok(response)
}

pub(super) fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = header::HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    Packer::new().pack(bytes, true).map_err(|error| internal("cannot compress", error))
}

/// `PUT /holm/v1/file`.
pub async fn upload(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let head = target(&guest, &request).and_then(|(user, path, query)| {
        let mode = query.bytes("mode").map(|_| octal(&query)).transpose()?;
        Ok((user, path, mode))
    });
    let mut body = request.into_body();
    let result = async {
        let (user, path, mode) = head?;
        let mut upload = Upload::begin(&guest.files, &user, &path, mode).await?;
        while let Some(part) = next_part(&mut body).await? {
            upload.write(&part).await?;
        }
        let size = upload.finish().await?;
        Ok(FileWritten { path: show(&path), size })
    }
    .await;
    if result.is_err() {
        discard(&mut body).await;
    }
    rpc::reply(result)
}

/// Reads on after a failure: a sender that still writes would see a broken connection instead of
/// the answer. A sender of more than this sees that.
const MAX_DISCARD: usize = 256 << 20;

pub(super) async fn discard(body: &mut Incoming) {
    let mut left = MAX_DISCARD;
    while let Ok(Some(part)) = next_part(body).await {
        let Some(rest) = left.checked_sub(part.len()) else { return };
        left = rest;
    }
}

pub(super) fn octal(query: &Query) -> Result<u32> {
    let mode = query.number("mode", 8)?;
    u32::try_from(mode)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| invalid("the mode must be octal permission bits, for example 644 or 755"))
}

/// A file on its way up. Dropped before its end, it leaves nothing.
pub struct Upload {
    pool: Pool,
    user: User,
    partial: Option<Partial>,
    buffer: Vec<u8>,
    /// A part that is being written while the next one arrives.
    writing: Option<Begun<Written>>,
}

/// The file (where all is well), what came of the write, and the buffer to be used again.
type Written = (Option<Partial>, Result<()>, Vec<u8>);

impl Upload {
    /// Begins.
    ///
    /// # Errors
    /// As [`Partial::begin`].
    pub async fn begin(pool: &Pool, user: &User, path: &CStr, mode: Option<u32>) -> Result<Self> {
        let path = path.to_owned();
        let mut upload = Self {
            pool: pool.clone(),
            user: user.clone(),
            partial: None,
            buffer: Vec::new(),
            writing: None,
        };
        let began = pool.run(user, move || Partial::begin(&path, mode)).await??;
        upload.partial = Some(began);
        Ok(upload)
    }

    /// Adds content; small parts are gathered.
    ///
    /// # Errors
    /// As [`Partial::write`].
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < CHUNK { Ok(()) } else { self.flush().await }
    }

    /// Begins to write what was gathered, once the part before is written.
    async fn flush(&mut self) -> Result<()> {
        let spare = self.settle().await?;
        let Some(mut partial) = self.partial.take() else { return Ok(()) };
        let mut bytes = std::mem::replace(&mut self.buffer, spare);
        // The work owns the partial file while it runs: where this call is dropped meanwhile, the
        // result is dropped with it, and the file is removed.
        let work = move || {
            let result = partial.write(&bytes);
            bytes.clear();
            // One that failed is removed here and now, before anybody is told.
            (result.is_ok().then_some(partial), result, bytes)
        };
        self.writing = Some(self.pool.begin(&self.user, work));
        Ok(())
    }

    /// Waits until nothing is being written. Gives a buffer that is free now.
    async fn settle(&mut self) -> Result<Vec<u8>> {
        let Some(writing) = self.writing.take() else {
            return Ok(Vec::with_capacity(if self.buffer.len() < CHUNK { 0 } else { 2 * CHUNK }));
        };
        let (partial, result, buffer) = writing.end().await?;
        self.partial = partial;
        result.map(|()| buffer)
    }

    /// Does `work` with the file as it is so far. One that fails is removed before anybody is told,
    /// and so is one whose call is dropped meanwhile.
    ///
    /// # Errors
    /// Those of `work`, and when the thread cannot act as the user.
    pub async fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Partial) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.settle().await?;
        let Some(mut partial) = self.partial.take() else {
            return Err(invalid("the upload has ended already"));
        };
        let work = move || {
            let result = work(&mut partial);
            (result.is_ok().then_some(partial), result)
        };
        let (partial, result) = self.pool.run(&self.user, work).await?;
        self.partial = partial;
        result
    }

    /// Sets attributes.
    ///
    /// # Errors
    /// When the thread cannot act as the user.
    pub async fn set_attributes(&mut self, attributes: &BTreeMap<String, String>) -> Result<()> {
        if attributes.is_empty() {
            return Ok(());
        }
        let attributes = attributes.clone();
        let set = move |partial: &mut Partial| {
            for (name, value) in &attributes {
                partial.set_attribute(&format!("{METADATA}{name}"), value.as_bytes());
            }
            Ok(())
        };
        self.work(set).await
    }

    /// Ends it: the file has its name now. Gives its size.
    ///
    /// # Errors
    /// As [`Partial::finish`].
    pub async fn finish(mut self) -> Result<u64> {
        self.flush().await?;
        self.settle().await?;
        match self.partial.take() {
            Some(partial) => self.pool.run(&self.user, move || partial.finish()).await?,
            None => Err(invalid("the upload has ended already")),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let written = self.writing.take().and_then(Begun::done);
        let written = written.and_then(|(partial, ..)| partial);
        if let Some(partial) = self.partial.take().or(written) {
            self.pool.later(&self.user, move || drop(partial));
        }
    }
}
