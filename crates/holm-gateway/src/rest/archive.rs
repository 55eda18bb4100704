//! Trees as tar streams, in both directions.

use holm_engine::SandboxId;
use hyper::Method;
use schemars::JsonSchema;
use schemars::generate::SchemaGenerator;
use serde::Deserialize;
use serde_json::json;

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::files::{ERRORS, FileWritten};
use super::input::{BodyDoc, Input, Nothing};
use super::output::{Answer, AnswerDoc, Output};
use super::raw::{Raw, Sending};
use super::text::User;
use crate::http::body::Intake;
use crate::http::reply::{self, Response};

const PATH: &str = "/v1/sandboxes/{sandbox_id}/files/archive";
const TAR: &str = "application/x-tar";

/// Which tree.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveQuery {
    /// A directory, or for a download one file as well; relative paths start in /workspace.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// Who reads or writes (default: sandbox).
    pub user: Option<User>,
}

/// A tar stream that is read part by part.
pub struct Archive(Raw);

impl Input for Archive {
    fn describe(_: &mut SchemaGenerator) -> Option<BodyDoc> {
        let schema = json!({"type": "string", "contentMediaType": TAR});
        // No body is an archive without entries.
        Some(BodyDoc { content_type: "application/octet-stream", schema, required: false })
    }

    async fn read(
        intake: &Intake,
        head: &hyper::http::request::Parts,
        body: hyper::body::Incoming,
    ) -> Result<Self, Failure> {
        Ok(Self(Raw::read(intake, head, body).await?))
    }
}

/// A tree on its way to the client.
pub struct Tree(Sending);

impl Output for Tree {
    fn describe(_: &mut SchemaGenerator) -> Vec<AnswerDoc> {
        let content = vec![(TAR, json!({"type": "string", "contentMediaType": TAR}))];
        vec![AnswerDoc { status: 200, description: "The tree as a tar stream.", content }]
    }

    fn respond(self) -> Response {
        let Sending(download, over) = self.0;
        reply::parts(TAR, None, super::raw::parts(download, over))
    }
}

/// The endpoints of trees.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let download_about = About {
        id: "archive_download",
        tag: "files",
        summary: "Download a tree",
        description: "A directory with all that is below it, or one file, as a tar stream: names are \
            relative to the directory, links stay links, sockets are left out. What cannot be read \
            breaks it off, which a client sees by the missing end.",
        scope: Some(holm_engine::KeyScope::Sandboxes),
        errors: ERRORS,
        headers: &[],
    };
    let upload_about = About {
        id: "archive_upload",
        summary: "Upload a tree",
        description: "Unpacks a tar stream below a directory, which is made where it is missing; \
            files that are there are replaced. A name that leads out of the directory, or through a \
            symbolic link, is refused. What was unpacked before an error stays.",
        ..download_about
    };
    vec![
        Endpoint::new(Method::GET, PATH, download_about, download),
        Endpoint::new(Method::PUT, PATH, upload_about, upload),
    ]
}

async fn download(call: Call<SandboxId, ArchiveQuery, Nothing>) -> Result<Tree, Failure> {
    let ArchiveQuery { path, user } = call.query;
    let download = call.engine.tree_download(&call.id, &path, user.map(User::as_str)).await?;
    Ok(Tree(Sending(download, call.over)))
}

async fn upload(
    call: Call<SandboxId, ArchiveQuery, Archive>,
) -> Result<Answer<FileWritten>, Failure> {
    let ArchiveQuery { path, user } = call.query;
    let (Archive(body), id) = (call.body, call.id);
    let announced = body.announced();
    let user = user.map(User::as_str);
    let began = async { Ok(call.engine.tree_upload(&id, &path, user, announced).await?) };
    let written = body.into(began).await?;
    Ok(Answer(FileWritten { sandbox_id: id, path: written.path, bytes_written: written.bytes }))
}
