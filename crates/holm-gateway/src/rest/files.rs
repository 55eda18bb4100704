//! Files as JSON: reading, writing, listing, removing. Large ones, and those that are no text, go
//! better raw.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use holm_engine::{ErrorKind, FileEntry, KeyScope, SandboxId};
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::endpoint::{About, Call, Endpoint};
use super::failure::Failure;
use super::input::{Json, Nothing, Object};
use super::number::Whole;
use super::output::Answer;
use super::text::{User, mode, sandbox_id_schema};

pub(super) const PATH: &str = "/v1/sandboxes/{sandbox_id}/files";
/// What any call on a file can fail with.
pub(super) const ERRORS: &[ErrorKind] = &[
    ErrorKind::NotFound,
    ErrorKind::SandboxGone,
    ErrorKind::FileNotFound,
    ErrorKind::FileInvalid,
    ErrorKind::PermissionDenied,
    ErrorKind::TooLarge,
    ErrorKind::Timeout,
    ErrorKind::Capacity,
    ErrorKind::DiskFull,
];
/// As long as a file can be (2^53: numbers beyond are not exact in JSON).
pub(super) const MAX_OFFSET: u64 = 1 << 53;
/// Standard base64, padded.
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
const WORKSPACE: &str = "/workspace";

/// How content is given in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub enum Encoding {
    /// As text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// As base64 (standard alphabet, padded).
    #[serde(rename = "base64")]
    Base64,
}

/// Which file, and what of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileReadQuery {
    /// Which file; relative paths start in /workspace.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// How content is returned (default: utf-8). A file that is no text is refused as utf-8.
    pub encoding: Option<Encoding>,
    /// Byte to start at (default: 0).
    pub offset: Option<Whole<0, MAX_OFFSET>>,
    /// Bytes to return at most.
    pub limit: Option<Whole<1, { 16 << 20 }>>,
    /// Who reads it (default: sandbox).
    pub user: Option<User>,
}

/// A file's content.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileContent {
    /// Where it was read.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// The path as asked for.
    pub path: String,
    /// The bytes, in the encoding.
    pub content: String,
    /// How content is given.
    pub encoding: Encoding,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// Its permission bits in octal.
    pub mode: String,
    /// True when the file goes on after this.
    pub truncated: bool,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// What to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = {"properties": {"encoding": {"const": "base64"}}, "required": ["encoding"]},
    "then" = {"properties": {"content": {"pattern": BASE64}}},
))]
pub struct FileWrite {
    /// Where; missing directories are made, relative paths start in /workspace.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// The file's whole content.
    pub content: String,
    /// How content is given (default: utf-8).
    pub encoding: Option<Encoding>,
    /// Permission bits in octal, such as "0755" (default: the file's own, 0644 for a new one).
    #[schemars(extend("pattern" = "^0?[0-7]{3}$"))]
    pub mode: Option<String>,
    /// Who writes it (default: sandbox).
    pub user: Option<User>,
}

impl Object for FileWrite {}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileWritten {
    /// Where it was written.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// Its absolute path.
    pub path: String,
    /// Its size.
    pub bytes_written: u64,
}

/// What to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDeleteQuery {
    /// Which file; relative paths start in /workspace. Links are removed, not followed.
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: String,
    /// Also a directory, with all that is in it.
    pub recursive: Option<bool>,
    /// Who removes it (default: sandbox).
    pub user: Option<User>,
}

/// A file that is gone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileDeleted {
    /// Where it was.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// The path as asked for.
    pub path: String,
    /// Always true.
    pub deleted: bool,
}

/// What to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FileListQuery {
    /// Which directory (default: /workspace).
    #[schemars(length(min = 1, max = 4095), extend("pattern" = "^[^\\u0000]*$"))]
    pub path: Option<String>,
    /// Also what is below it (default: true).
    pub recursive: Option<bool>,
    /// Entries in a page (default: 1000).
    pub limit: Option<Whole<1, 10_000>>,
    /// `next_cursor` of the page before.
    #[schemars(length(max = 8190), extend("pattern" = "^[^\\u0000]*$"))]
    pub cursor: Option<String>,
    /// Who looks (default: sandbox).
    pub user: Option<User>,
}

/// A page of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileList {
    /// Where it was listed.
    #[schemars(schema_with = "sandbox_id_schema")]
    pub sandbox_id: SandboxId,
    /// The directory.
    pub path: String,
    /// Its entries in the order of their paths; links are shown, not followed.
    pub files: Vec<Entry>,
    /// For the next page; null on the last one.
    pub next_cursor: Option<String>,
    /// Directories that could not be read (some of them, where there are many).
    pub unreadable: Vec<String>,
}

/// One entry of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Entry {
    /// Absolute path.
    pub path: String,
    /// Its last part.
    pub name: String,
    /// `file`, `directory`, `symlink` or `other`.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["file", "directory", "symlink", "other"]))]
    pub kind: &'static str,
    /// Bytes.
    pub size: u64,
    /// Its permission bits in octal.
    pub mode: String,
    /// When it was changed, in seconds since 1970.
    pub modified_at: i64,
    /// Where a symlink points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl From<FileEntry> for Entry {
    fn from(entry: FileEntry) -> Self {
        Self {
            path: entry.path,
            name: entry.name,
            kind: entry.kind,
            size: entry.size,
            mode: format!("{:04o}", entry.mode),
            modified_at: entry.mtime,
            target: entry.target,
        }
    }
}

/// The endpoints of files as JSON.
#[must_use]
pub fn endpoints() -> Vec<Endpoint> {
    let about = |id, summary, description| About {
        id,
        tag: "files",
        summary,
        description,
        scope: Some(KeyScope::Sandboxes),
        errors: ERRORS,
        headers: &[],
    };
    let read_about = about(
        "file_read",
        "Read a file",
        "As text or base64 in JSON, up to 16 MiB at once. `GET …/files/raw` streams.",
    );
    let write_about = about(
        "file_write",
        "Write a file",
        "From text or base64 in JSON. It is replaced in one step; missing directories are made. \
         `PUT …/files/raw` streams files of any size.",
    );
    let delete_about = about("file_delete", "Remove a file", "A directory only with `recursive`.");
    let list_about =
        about("file_list", "List a directory", "In pages: `next_cursor` is null on the last one.");
    vec![
        Endpoint::new(Method::GET, PATH, read_about, read),
        Endpoint::new(Method::PUT, PATH, write_about, write),
        Endpoint::new(Method::DELETE, PATH, delete_about, delete),
        Endpoint::new(Method::GET, "/v1/sandboxes/{sandbox_id}/files/list", list_about, list),
    ]
}

async fn read(
    call: Call<SandboxId, FileReadQuery, Nothing>,
) -> Result<Answer<FileContent>, Failure> {
    let FileReadQuery { path, encoding, offset, limit, user } = call.query;
    let offset = offset.map_or(0, |offset| offset.0);
    let user = user.map(User::as_str);
    let limit = limit.map(|limit| limit.0);
    let file = call.engine.file_read(&call.id, &path, user, offset, limit).await?;
    let encoding = encoding.unwrap_or_default();
    let (content, taken) = match encoding {
        Encoding::Base64 => (STANDARD.encode(&file.bytes), file.bytes.len()),
        Encoding::Utf8 => holm_engine::whole_text(&path, offset, file.bytes, file.truncated)?,
    };
    Ok(Answer(FileContent {
        sandbox_id: call.id,
        path,
        content,
        encoding,
        size: file.size,
        mode: format!("{:04o}", file.mode),
        truncated: file.truncated,
        next_offset: file.truncated.then_some(offset + taken as u64),
    }))
}

async fn write(
    call: Call<SandboxId, super::input::NoQuery, Json<FileWrite>>,
) -> Result<Answer<FileWritten>, Failure> {
    let FileWrite { path, content, encoding, mode: bits, user } = call.body.0;
    let bytes = match encoding.unwrap_or_default() {
        Encoding::Utf8 => Bytes::from(content),
        Encoding::Base64 => STANDARD.decode(content).map(Bytes::from).map_err(|error| {
            let text = format!("`content` is no valid base64 (standard alphabet): {error}");
            Failure::invalid(text)
        })?,
    };
    let (user, bits) = (user.map(User::as_str), mode(bits.as_deref())?);
    let written = call.engine.file_write(&call.id, &path, user, bits, bytes).await?;
    Ok(Answer(FileWritten {
        sandbox_id: call.id,
        path: written.path,
        bytes_written: written.bytes,
    }))
}

async fn delete(
    call: Call<SandboxId, FileDeleteQuery, Nothing>,
) -> Result<Answer<FileDeleted>, Failure> {
    let FileDeleteQuery { path, recursive, user } = call.query;
    let (user, recursive) = (user.map(User::as_str), recursive.unwrap_or(false));
    call.engine.file_delete(&call.id, &path, user, recursive).await?;
    Ok(Answer(FileDeleted { sandbox_id: call.id, path, deleted: true }))
}

async fn list(call: Call<SandboxId, FileListQuery, Nothing>) -> Result<Answer<FileList>, Failure> {
    let FileListQuery { path, recursive, limit, cursor, user } = call.query;
    let path = path.unwrap_or_else(|| WORKSPACE.to_owned());
    let (user, recursive) = (user.map(User::as_str), recursive.unwrap_or(true));
    let limit = limit.and_then(|limit| u32::try_from(limit.0).ok());
    let page =
        call.engine.file_list(&call.id, &path, user, recursive, limit, cursor.as_deref()).await?;
    Ok(Answer(FileList {
        sandbox_id: call.id,
        path,
        files: page.files.into_iter().map(Entry::from).collect(),
        next_cursor: page.next,
        unreadable: page.unreadable,
    }))
}
