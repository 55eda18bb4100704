//! Files on their way in and out of a sandbox, part by part: nothing of them is kept here, and
//! whoever is slower sets the pace.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use holm_wire::client::{ClientError, FileBody, TreeUpload, Upload as FileUpload};
use tokio::time::timeout;

use crate::command::user;
use crate::files::{MAX_PATH, check_mode, check_path};
use crate::guest_error::About;
use crate::sandbox::Sandbox;
use crate::text::shorten;
use crate::uses::InUse;
use crate::{Engine, Error, ErrorKind, FileWritten, SandboxId};

/// Longest wait for a guest that takes no part.
const STALLED: Duration = Duration::from_secs(30);

/// A file on its way out. Dropping it stops the reading.
pub struct Download {
    engine: Engine,
    sandbox: InUse,
    path: String,
    body: FileBody,
    /// Bytes that come, where the guest has said so.
    pub length: Option<u64>,
    /// Size of the whole file.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// A file on its way in. Dropping it before [`Self::finish`] leaves what was there.
pub struct Upload {
    engine: Engine,
    sandbox: InUse,
    path: String,
    sent: Sent,
    written: u64,
}

/// To where.
enum Sent {
    /// A file.
    File(FileUpload),
    /// A directory, by a tar stream.
    Tree(TreeUpload),
}

impl Sent {
    async fn write(&mut self, part: Bytes) -> Result<(), ClientError> {
        match self {
            Self::File(file) => file.write(&part).await,
            Self::Tree(tree) => tree.write(part).await,
        }
    }
}

impl Engine {
    /// Opens a file for reading part by part, from `offset`, at most `limit` bytes.
    ///
    /// # Errors
    /// Those of [`Self::file_read`], without a bound on the size.
    pub async fn file_download(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<Download, Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        if limit == Some(0) {
            return Err(Error::invalid("limit must be at least 1"));
        }
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let open = guest.read_file(path, user, offset, limit.unwrap_or(0));
        let body = self.file_call(&sandbox, path, open).await?;
        Ok(Download {
            engine: self.clone(),
            path: path.to_owned(),
            length: body.length(),
            size: body.size,
            mode: body.mode & 0o7777,
            sandbox,
            body,
        })
    }

    /// Begins to write a file part by part. It appears whole, with [`Upload::finish`], or not at
    /// all. `mode` is as in [`Self::file_write`]; `announced` is how many bytes will come, where
    /// that is known.
    ///
    /// # Errors
    /// Those of [`Self::file_write`].
    pub async fn file_upload(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        mode: Option<u32>,
        announced: Option<u64>,
    ) -> Result<Upload, Error> {
        check_path("path", path)?;
        check_mode(mode)?;
        let user = user(user_name)?;
        self.check_upload(path, announced.unwrap_or(0))?;
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let begin = guest.upload(path, user, mode, announced);
        let sent = Sent::File(self.file_call(&sandbox, path, begin).await?);
        Ok(Upload { engine: self.clone(), sandbox, path: path.to_owned(), sent, written: 0 })
    }

    /// Opens a directory with all that is below it, or one file, as a tar stream: names are relative to
    /// the directory, links are links, sockets are left out. What cannot be read on the way breaks it
    /// off.
    ///
    /// # Errors
    /// Those of [`Self::file_read`], without a bound on the size.
    pub async fn tree_download(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
    ) -> Result<Download, Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let body = self.file_call(&sandbox, path, guest.read_tree(path, user)).await?;
        let (engine, path) = (self.clone(), path.to_owned());
        Ok(Download { engine, path, length: None, size: 0, mode: 0, sandbox, body })
    }

    /// Begins to unpack a tar stream below a directory, which is made where it is missing. No name may
    /// lead outside it, and none through a symbolic link. Files that are there are replaced; what was
    /// unpacked before an error stays. The bound of an upload counts for the stream.
    ///
    /// # Errors
    /// Those of [`Self::file_write`].
    pub async fn tree_upload(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        announced: Option<u64>,
    ) -> Result<Upload, Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        self.check_upload(path, announced.unwrap_or(0))?;
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let begin = async { guest.write_tree(path, user) };
        let sent = Sent::Tree(self.file_call(&sandbox, path, begin).await?);
        Ok(Upload { engine: self.clone(), sandbox, path: path.to_owned(), sent, written: 0 })
    }

    fn check_upload(&self, path: &str, bytes: u64) -> Result<(), Error> {
        let most = self.inner.settings.max_upload;
        if bytes <= most {
            return Ok(());
        }
        let text = format!("{} has more than the {most} bytes of one upload", shorten(path, 200));
        Err(Error::new(ErrorKind::TooLarge, text)
            .suggest("Upload it in several files and join them with a command (cat a b > c)."))
    }

    /// Removes a file; a directory only where `recursive` says so, with all that is in it. Links
    /// are removed, not followed.
    ///
    /// # Errors
    /// `file_not_found`, `file_invalid` (a directory, without `recursive`), `permission_denied`,
    /// and those of every call.
    pub async fn file_delete(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        recursive: bool,
    ) -> Result<(), Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let absolute = match path.strip_prefix('/') {
            Some(_) => path.to_owned(),
            None => format!("{}/{path}", sandbox.workdir),
        };
        let remove = async {
            let entry = guest.stat(&absolute, user).await?;
            if entry.is_directory() && !recursive {
                return Ok(false);
            }
            guest.remove(&absolute, user).await.map(|()| true)
        };
        if self.file_call(&sandbox, path, remove).await? {
            return Ok(());
        }
        let text = format!("{} is a directory", shorten(path, 200));
        Err(Error::new(ErrorKind::FileInvalid, text)
            .suggest("Set recursive to true to remove it with all that is in it."))
    }

    async fn file_failed(&self, sandbox: &Arc<Sandbox>, path: &str, error: &ClientError) -> Error {
        self.about_path(path, self.call_failed(sandbox, error, About::File).await)
    }
}

impl Download {
    /// The next part; nothing at the end.
    ///
    /// # Errors
    /// When the sandbox ends, or sends nothing for 30 s.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let part = tokio::select! {
            biased;
            part = self.body.next() => part,
            ended = self.sandbox.ended() => return Err(Error::gone(&self.sandbox.id, ended)),
        };
        match part {
            Ok(part) => Ok(part),
            Err(error) => Err(self.engine.file_failed(&self.sandbox, &self.path, &error).await),
        }
    }
}

impl Upload {
    /// Hands over the next part, and waits until the guest takes it.
    ///
    /// # Errors
    /// When the file cannot be written (`disk_full` …), the sandbox ends or takes nothing for
    /// 30 s, or there are more bytes than one upload may have.
    pub async fn write(&mut self, part: Bytes) -> Result<(), Error> {
        self.written += part.len() as u64;
        self.engine.check_upload(&self.path, self.written)?;
        let taken = tokio::select! {
            biased;
            taken = timeout(STALLED, self.sent.write(part)) => taken,
            ended = self.sandbox.ended() => return Err(Error::gone(&self.sandbox.id, ended)),
        };
        match taken.unwrap_or(Err(ClientError::Deadline(STALLED.as_millis()))) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.engine.file_failed(&self.sandbox, &self.path, &error).await),
        }
    }

    /// Resolves when the sandbox ends: no part that is still to come will be written.
    pub fn lost(&self) -> impl Future<Output = Error> + Send + use<> {
        let sandbox = Arc::clone(&self.sandbox);
        async move { Error::gone(&sandbox.id, sandbox.ended().await) }
    }

    /// All parts were handed over: the file has its name when this returns.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn finish(self) -> Result<FileWritten, Error> {
        let Self { engine, sandbox, path, sent, written } = self;
        let finish = async {
            match sent {
                Sent::File(file) => file.finish().await,
                Sent::Tree(tree) => tree.finish().await,
            }
        };
        let answer = engine.file_call(&sandbox, &path, finish).await?;
        Ok(FileWritten { path: shorten(&answer.path, MAX_PATH), bytes: written })
    }
}
