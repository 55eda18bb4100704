//! envd's `/files`: raw bytes down; up as raw bytes or as a form of several files.

use std::collections::BTreeMap;
use std::ffi::CString;

use holm_wire::connect::{Code, Error};
use holm_wire::filesystem::WriteInfo;
use holm_wire::reason::Reason;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, header};
use serde::Serialize;

use super::envd::target;
use super::gzip::{Coding, Content};
use super::http::{Upload, discard, send};
use super::multipart::{Event, Parser, boundary};
use super::path::show;
use super::query::Query;
use crate::errors::{Result, invalid};
use crate::identity::User;
use crate::server::body::{Reply, respond};
use crate::server::rpc;
use crate::state::{Guest, Shared};

/// Files of one form.
const MAX_FILES: usize = 1000;
/// Attributes of one upload.
const MAX_ATTRIBUTES: usize = 32;

/// envd's form of an error on plain HTTP.
#[derive(Serialize)]
struct Failure<'a> {
    code: u16,
    message: &'a str,
}

pub(super) fn failure(error: &Error) -> Response<Reply> {
    let status = match (error.reason, error.code) {
        (Some(Reason::DiskFull), _) => 507,
        (Some(Reason::TooLarge), _) => 413,
        (None, Code::AlreadyExists | Code::FailedPrecondition) => 400,
        (None, other) => other.http_status(),
    };
    plain(status, &error.message)
}

fn plain(status: u16, message: &str) -> Response<Reply> {
    let body = serde_json::to_vec(&Failure { code: status, message }).unwrap_or_default();
    respond(status, "application/json", body)
}

/// The user that a request names: by parameter, or by its basic authentication.
fn user_of(query: &Query, headers: &HeaderMap) -> Result<String> {
    let named = query.text("username")?;
    if named.is_empty() { rpc::user(headers) } else { Ok(named.to_owned()) }
}

/// `GET /files`.
pub async fn download(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let Some(coding) = Coding::accepted(request.headers()) else {
        return plain(406, "files are sent as they are (identity) or compressed (gzip)");
    };
    let result = async {
        let query = Query::parse(request.uri().query());
        let user = user_of(&query, request.headers())?;
        let path = query.text("path")?;
        if path.is_empty() {
            return Err(invalid("`path` is missing"));
        }
        let (user, path) = target(&guest, &user, path)?;
        send(&guest.files, &user, path, (0, 0), coding).await
    };
    result.await.unwrap_or_else(|error| failure(&error))
}

/// `POST /files`.
pub async fn upload(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let Some(coding) = Coding::sent(request.headers()) else {
        return plain(415, "uploads are taken as they are (identity) or compressed (gzip)");
    };
    let (head, body) = request.into_parts();
    let mut content = Content::new(body, coding);
    match store(&guest, &head, &mut content).await {
        Ok(written) => rpc::reply(Ok(written)),
        Err(error) => {
            discard(content.body()).await;
            failure(&error)
        }
    }
}

async fn store(guest: &Guest, head: &Parts, content: &mut Content) -> Result<Vec<WriteInfo>> {
    let query = Query::parse(head.uri.query());
    let user = user_of(&query, &head.headers)?;
    let attributes = attributes(&head.headers)?;
    let named = query.text("path")?.to_owned();
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let Some(boundary) = boundary(kind.unwrap_or("")) else {
        if named.is_empty() {
            return Err(invalid("`path` is missing"));
        }
        let (user, path) = target(guest, &user, &named)?;
        let mut upload = begin(guest, &user, &path, &attributes).await?;
        while let Some(part) = content.next().await? {
            upload.write(&part).await?;
        }
        upload.finish().await?;
        return Ok(vec![info(&path, attributes)]);
    };
    form(guest, &user, &named, &attributes, Parser::new(&boundary), content).await
}

async fn begin(
    guest: &Guest,
    user: &User,
    path: &CString,
    attributes: &BTreeMap<String, String>,
) -> Result<Upload> {
    let mut upload = Upload::begin(&guest.files, user, path, None).await?;
    upload.set_attributes(attributes).await?;
    Ok(upload)
}

/// Each part named `file` is one file; where no `path` is given, its file name is the path.
async fn form(
    guest: &Guest,
    user: &str,
    named: &str,
    attributes: &BTreeMap<String, String>,
    mut parser: Parser,
    content: &mut Content,
) -> Result<Vec<WriteInfo>> {
    let mut written = Vec::new();
    let mut current: Option<(Upload, CString)> = None;
    while let Some(part) = content.next().await? {
        parser.push(&part);
        while let Some(event) = parser.next()? {
            match event {
                Event::Part(field, file) if field == "file" => {
                    let path =
                        if named.is_empty() { file.unwrap_or_default() } else { named.to_owned() };
                    if path.is_empty() {
                        return Err(invalid(
                            "a file of the form has neither `path` nor a file name",
                        ));
                    }
                    if written.len() >= MAX_FILES {
                        return Err(invalid(format!("a form holds at most {MAX_FILES} files")));
                    }
                    let (user, path) = target(guest, user, &path)?;
                    current = Some((begin(guest, &user, &path, attributes).await?, path));
                }
                Event::Part(..) => {}
                Event::Data(bytes) => {
                    if let Some((upload, _)) = &mut current {
                        upload.write(&bytes).await?;
                    }
                }
                Event::PartEnd => {
                    if let Some((upload, path)) = current.take() {
                        upload.finish().await?;
                        written.push(info(&path, attributes.clone()));
                    }
                }
                Event::End => {
                    if written.is_empty() {
                        return Err(invalid("the form holds no part named `file`"));
                    }
                    return Ok(written);
                }
            }
        }
    }
    Err(invalid("the form ends before its last boundary"))
}

pub(super) fn info(path: &CString, metadata: BTreeMap<String, String>) -> WriteInfo {
    let path = show(path);
    let name = path.rsplit('/').next().unwrap_or("").to_owned();
    WriteInfo { name, path, r#type: "file".to_owned(), metadata }
}

/// `X-Metadata-KEY: VALUE` headers.
fn attributes(headers: &HeaderMap) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix("x-metadata-").filter(|key| !key.is_empty()) {
            let value =
                value.to_str().map_err(|_| invalid("a metadata value is not plain text"))?;
            found.insert(key.to_owned(), value.to_owned());
        }
    }
    if found.len() > MAX_ATTRIBUTES {
        return Err(invalid(format!("at most {MAX_ATTRIBUTES} metadata headers are kept")));
    }
    Ok(found)
}
