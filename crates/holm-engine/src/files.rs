//! Files: judged by their path's text only; everything else is the guest's.

use std::time::Duration;

use bytes::Bytes;
use holm_wire::client::ClientError;
use holm_wire::guest::{ListTreeRequest, TreeEntry};
use tokio::time::timeout;

use crate::command::user;
use crate::guest_error::About;
use crate::text::shorten;
use crate::{Engine, Error, ErrorKind, FileContent, FileEntry, FileList, FileWritten, SandboxId};

/// Most bytes of a path: the kernel's PATH_MAX with the closing NUL.
pub(crate) const MAX_PATH: usize = 4095;
/// Entries of a page where the caller names no number, and the most.
const PAGE: u32 = 1000;
const MAX_PAGE: u32 = 10_000;

/// Refuses path texts that can name nothing.
pub(crate) fn check_path(argument: &str, path: &str) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::invalid(format!("{argument} must not be empty")));
    }
    if path.contains('\0') {
        return Err(Error::invalid(format!("{argument} holds a NUL character")));
    }
    if path.len() > MAX_PATH {
        return Err(Error::invalid(format!(
            "{argument} has {} bytes; a path may have {MAX_PATH}",
            path.len()
        )));
    }
    Ok(())
}

/// Refuses what is more than permission bits.
pub(crate) fn check_mode(mode: Option<u32>) -> Result<(), Error> {
    if mode.is_some_and(|mode| mode > 0o777) {
        return Err(Error::invalid(
            "mode must be permission bits from 000 to 777 (octal); set-id and sticky bits are not \
             set by file calls",
        ));
    }
    Ok(())
}

impl Engine {
    /// Reads a file, or `limit` bytes of it from `offset`.
    ///
    /// # Errors
    /// `file_not_found`, `file_invalid`, `permission_denied`, `too_large` (more than the bound of
    /// one read, and no limit given), and those of every call.
    pub async fn file_read(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        offset: u64,
        limit: Option<u64>,
    ) -> Result<FileContent, Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        let most = self.inner.settings.max_read;
        if let Some(limit) = limit
            && (limit == 0 || limit > most)
        {
            return Err(Error::invalid(format!("limit must be from 1 to {most} bytes")));
        }
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let read = async {
            // One byte more than may come, so that a file over the bound is noticed.
            let ask = limit.unwrap_or(most + 1);
            let file = guest.read_file(path, user, offset, ask).await?;
            let (size, mode) = (file.size, file.mode & 0o7777);
            if limit.is_none() && size.saturating_sub(offset) > most {
                return Ok(Err(too_large(path, size, most)));
            }
            // Of what the guest does not announce there may come as much as was asked for.
            let room = match self.room_for(file.length().unwrap_or(ask).min(ask)).await {
                Ok(room) => room,
                Err(error) => return Ok(Err(error)),
            };
            let bytes = file.read_to_end(usize::try_from(ask).unwrap_or(usize::MAX)).await?;
            Ok(if limit.is_none() && bytes.len() as u64 > most {
                Err(too_large(path, size.max(offset + bytes.len() as u64), most))
            } else {
                Ok((bytes, size, mode, room))
            })
        };
        let (bytes, size, mode, _room) = self.file_call(&sandbox, path, read).await??;
        // Files may grow while they are read, and those of /proc say 0.
        let end = offset.saturating_add(bytes.len() as u64);
        let truncated = limit.is_some_and(|limit| bytes.len() as u64 == limit) && end < size;
        Ok(FileContent { bytes: Bytes::from(bytes), size: size.max(end), mode, truncated })
    }

    /// Writes a whole file atomically; missing directories are made. `mode` are permission bits:
    /// where absent, an existing file keeps its own and a new one gets 0644.
    ///
    /// # Errors
    /// As [`Self::file_read`], and `disk_full`. After any error the old file is as it was.
    pub async fn file_write(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        mode: Option<u32>,
        bytes: Bytes,
    ) -> Result<FileWritten, Error> {
        check_path("path", path)?;
        let user = user(user_name)?;
        check_mode(mode)?;
        let most = self.inner.settings.max_write;
        if bytes.len() as u64 > most {
            let text = format!("content has {} bytes; one write takes {most}", bytes.len());
            return Err(Error::new(ErrorKind::TooLarge, text).suggest(
                "Write the content in several files and join them with run_command (cat a b > c).",
            ));
        }
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let written = bytes.len() as u64;
        let write = guest.write_file(path, user, mode, bytes);
        let answer = self.file_call(&sandbox, path, write).await?;
        Ok(FileWritten { path: shorten(&answer.path, MAX_PATH), bytes: written })
    }

    /// Lists a directory, one page; links are not followed.
    ///
    /// # Errors
    /// As [`Self::file_read`].
    pub async fn file_list(
        &self,
        id: &SandboxId,
        path: &str,
        user_name: Option<&str>,
        recursive: bool,
        limit: Option<u32>,
        after: Option<&str>,
    ) -> Result<FileList, Error> {
        check_path("path", path)?;
        let limit = limit.unwrap_or(PAGE);
        if limit == 0 || limit > MAX_PAGE {
            return Err(Error::invalid(format!("limit must be from 1 to {MAX_PAGE}")));
        }
        let after = after.unwrap_or_default();
        if after.contains('\0') || after.len() > 2 * MAX_PATH {
            return Err(Error::invalid("cursor must be the next_cursor of the page before"));
        }
        let request = ListTreeRequest {
            path: path.to_owned(),
            user: user(user_name)?.to_owned(),
            recursive,
            limit,
            after: after.to_owned(),
        };
        let sandbox = self.in_use(id).await?;
        let guest = sandbox.guest()?.clone();
        let page = self.file_call(&sandbox, path, guest.list_tree(&request)).await?;
        if page.entries.len() > limit as usize {
            let said = format!("{} entries where {limit} were asked for", page.entries.len());
            let error = ClientError::Protocol(said);
            return Err(self.call_failed(&sandbox, &error, About::File).await);
        }
        let target = |entry: &TreeEntry| entry.target.as_ref().map_or(0, String::len);
        let texts = page.entries.iter().map(|entry| (entry.path.len() + target(entry)) as u64);
        let _room = self.room_for(texts.sum()).await?;
        let files = page.entries.into_iter().map(|entry| FileEntry {
            name: entry.path.rsplit('/').next().unwrap_or_default().to_owned(),
            path: entry.path,
            kind: match entry.r#type.as_str() {
                "file" => "file",
                "directory" => "directory",
                "symlink" => "symlink",
                _ => "other",
            },
            size: entry.size,
            mode: entry.mode & 0o7777,
            mtime: entry.mtime,
            target: entry.target,
        });
        Ok(FileList { files: files.collect(), next: page.next, unreadable: page.unreadable })
    }

    /// A call about files: bounded in time as a whole, ended with the sandbox, its errors naming
    /// the path.
    pub(crate) async fn file_call<T>(
        &self,
        sandbox: &std::sync::Arc<crate::sandbox::Sandbox>,
        path: &str,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, Error> {
        let deadline: Duration = self.inner.settings.file_deadline;
        let answer = tokio::select! {
            biased;
            answer = timeout(deadline, call) => answer,
            ended = sandbox.ended() => return Err(Error::gone(&sandbox.id, ended)),
        };
        let answer = answer.unwrap_or(Err(ClientError::Deadline(deadline.as_millis())));
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => {
                Err(self.about_path(path, self.call_failed(sandbox, &error, About::File).await))
            }
        }
    }

    /// The same error, naming the path.
    pub(crate) fn about_path(&self, path: &str, mut error: Error) -> Error {
        let short = shorten(path, 200);
        if error.ended.is_none() && !error.public.contains(&short) {
            error.public = format!("{short}: {}", error.public);
        }
        error
    }
}

fn too_large(path: &str, size: u64, most: u64) -> Error {
    let path = shorten(path, 200);
    let text = format!("{path} has {size} bytes; one read gives up to {most}");
    Error::new(ErrorKind::TooLarge, text)
        .suggest("Read it in parts with offset and limit, or look at it with run_command (head, tail, grep).")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, want: Option<&str>) {
        match (check_path("path", path), want) {
            (Ok(()), None) => {}
            (Err(error), Some(part)) => {
                assert_eq!(error.kind, ErrorKind::InvalidArgument);
                assert!(error.public.contains(part), "{error}");
            }
            (got, want) => panic!("{path:?}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn case_27_paths_that_can_name_nothing_are_refused() {
        check("", Some("empty"));
        check("a\0b", Some("NUL"));
        check(&"x".repeat(5000), Some("5000 bytes"));
        check("../../x", None);
        check("..%2f..%2fx", None);
        check("a\\b", None);
        check("dir/", None);
    }
}
