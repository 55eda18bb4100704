//! Files raw: streamed in both directions, with nothing of them kept. Whoever is slower sets the
//! pace, and when one side goes away the other is told.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use holm_engine::{Download, FileWritten as Written, SandboxId, Upload};
use http_body_util::BodyExt as _;
use hyper::Method;
use hyper::body::{Body as _, Incoming};
use hyper::http::request::Parts;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::files::{ERRORS, FileWritten, MAX_OFFSET};
use super::input::{BodyDoc, Input, Nothing};
use super::number::Whole;
use super::output::{Answer, AnswerDoc, Output};
use super::over::Over;
use super::text::{User, mode};
use crate::http::body::{BodyError, Intake};
use crate::http::reply::{self, Response, Source};

const PATH: &str = "/v1/sandboxes/{sandbox_id}/files/raw";
const BYTES: &str = "application/octet-stream";

/// Which file, and what of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDownloadQuery {
    /// Which file; relative paths start in /workspace.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// Byte to start at (default: 0).
    pub offset: Option<Whole<0, MAX_OFFSET>>,
    /// Bytes to return at most.
    pub limit: Option<Whole<1, MAX_OFFSET>>,
    /// Who reads it (default: sandbox).
    pub user: Option<User>,
}

/// Where to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileUploadQuery {
    /// Where; missing directories are made, relative paths start in /workspace.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// Permission bits in octal, such as 0755 (default: the file's own, 0644 for a new one).
    #[schemars(extend("pattern" = "^0?[0-7]{3}$"))]
    pub mode: Option<String>,
    /// Who writes it (default: sandbox).
    pub user: Option<User>,
}

/// A body that is read part by part.
pub struct Raw {
    body: Incoming,
    intake: Intake,
    head: Parts,
}

impl Input for Raw {
    fn describe(_: &mut SchemaGenerator) -> Option<BodyDoc> {
        let schema = json!({"type": "string", "contentMediaType": BYTES});
        // No body is an empty file.
        Some(BodyDoc { content_type: BYTES, schema, required: false })
    }

    async fn read(intake: &Intake, head: &Parts, body: Incoming) -> Result<Self, Failure> {
        Ok(Self { body, intake: intake.clone(), head: head.clone() })
    }
}

impl Raw {
    /// How many bytes come, where the client has said so.
    pub(super) fn announced(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next part; nothing at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = timeout(self.intake.silence(), self.body.frame());
            match frame.await.map_err(|_elapsed| BodyError::Slow)? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(_)) => return Err(BodyError::Broken.into()),
            }
        }
    }

    /// Hands all of it to an upload that begins by `began`. Gives what was written.
    pub(super) async fn into(
        mut self,
        began: impl Future<Output = Result<Upload, Failure>>,
    ) -> Result<Written, Failure> {
        let mut upload = match began.await {
            Ok(upload) => upload,
            Err(failure) => return Err(self.fail(failure).await),
        };
        loop {
            let part = tokio::select! {
                biased;
                part = self.next() => part?,
                // Nothing comes at this moment, so that there is nothing to be taken before the answer.
                error = upload.lost() => return Err(Failure { close: true, ..error.into() }),
            };
            let Some(part) = part else { break };
            if let Err(error) = upload.write(part).await {
                drop(upload);
                return Err(self.fail(error.into()).await);
            }
        }
        Ok(upload.finish().await?)
    }

    /// The upload failed: the rest is taken from a client that writes first and reads then.
    async fn fail(self, failure: Failure) -> Failure {
        self.intake.discard(&self.head, self.body).await;
        Failure { close: true, ..failure }
    }
}

/// A file on its way to the client.
pub struct Sending(pub(super) Download, pub(super) Over);

impl Output for Sending {
    fn describe(_: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let content = vec![(BYTES, json!({"type": "string", "contentMediaType": BYTES}))];
        vec![AnswerDoc { status: 200, description: "The file's bytes.", content }]
    }

    fn respond(self) -> Response {
        let Self(download, over) = self;
        let (length, size, bits) = (download.length, download.size, download.mode);
        let response = reply::parts(BYTES, length, parts(download, over));
        let response = reply::with(response, "x-file-size", &size.to_string());
        reply::with(response, "x-file-mode", &format!("{bits:04o}"))
    }
}

/// What comes of a download, and what ends it before its time.
pub(super) fn parts(download: Download, over: Over) -> FileParts {
    FileParts { next: next(download, over) }
}

/// A download, part by part.
pub(super) struct FileParts {
    next: Next,
}

/// The next part, and the download that goes on after it.
type Next = Pin<Box<dyn Future<Output = (Download, Over, Result<Option<Bytes>, Failure>)> + Send>>;

fn next(mut download: Download, mut over: Over) -> Next {
    Box::pin(async move {
        let part = tokio::select! {
            biased;
            failure = over.failure() => Err(failure),
            part = download.next() => part.map_err(Failure::from),
        };
        (download, over, part)
    })
}

impl Source for FileParts {
    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>> {
        let (download, over, part) = ready!(self.next.as_mut().poll(context));
        Poll::Ready(match part {
            Ok(None) => None,
            Ok(Some(part)) => {
                self.next = next(download, over);
                Some(Ok(part))
            }
            Err(failure) => {
                // The head is out; breaking off is the only way to say so.
                tracing::debug!(error = failure.message, "a download broke off");
                Some(Err(std::io::Error::other(failure.message)))
            }
        })
    }
}

/// The endpoints of raw files.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let download_about = About {
        id: "file_download",
        tag: "files",
        summary: "Download a file",
        description: "Its bytes, streamed. `X-File-Size` is the size of the whole file, \
            `X-File-Mode` its permission bits. A transfer that is cut short fails in the client: \
            the length is announced.",
        scope: Some(holm_engine::KeyScope::Sandboxes),
        errors: ERRORS,
        headers: &[],
    };
    let upload_about = About {
        id: "file_upload",
        summary: "Upload a file",
        description: "From the body's bytes, streamed. The file appears whole at the end; an \
            upload that breaks off leaves what was there before.",
        ..download_about
    };
    vec![
        Endpoint::new(Method::GET, PATH, download_about, download),
        Endpoint::new(Method::PUT, PATH, upload_about, upload),
    ]
}

async fn download(call: Call<SandboxId, FileDownloadQuery, Nothing>) -> Result<Sending, Failure> {
    let FileDownloadQuery { path, offset, limit, user } = call.query;
    let (offset, limit) = (offset.map_or(0, |offset| offset.0), limit.map(|limit| limit.0));
    let user = user.map(User::as_str);
    let download = call.engine.file_download(&call.id, &path, user, offset, limit).await?;
    Ok(Sending(download, call.over))
}

async fn upload(
    call: Call<SandboxId, FileUploadQuery, Raw>,
) -> Result<Answer<FileWritten>, Failure> {
    let FileUploadQuery { path, mode: bits, user } = call.query;
    let (body, id) = (call.body, call.id);
    let announced = body.announced();
    let began = async {
        let (bits, user) = (mode(bits.as_deref())?, user.map(User::as_str));
        Ok(call.engine.file_upload(&id, &path, user, bits, announced).await?)
    };
    let written = body.into(began).await?;
    Ok(Answer(FileWritten { sandbox_id: id, path: written.path, bytes_written: written.bytes }))
}
