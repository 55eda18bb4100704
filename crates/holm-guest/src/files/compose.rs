//! envd's `/files/compose`: several files become one, and are gone then.

use std::ffi::CString;
use std::sync::Arc;

use holm_wire::filesystem::{ComposeRequest, WriteInfo};
use hyper::body::Incoming;
use hyper::{Request, Response};
use rustix::fs::AtFlags;

use super::envd::target;
use super::envd_http::{failure, info};
use super::http::Upload;
use super::path::show;
use super::read::{self, CHUNK, Opened};
use crate::errors::{Result, invalid, shorten};
use crate::server::body::Reply;
use crate::server::rpc;
use crate::state::{Guest, Shared};

/// Most files of one call.
const MOST: usize = 1000;

/// `POST /files/compose`.
pub async fn compose(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let result = async {
        let caller = rpc::user(request.headers())?;
        join(&guest, &caller, rpc::unary(request).await?).await
    };
    match result.await {
        Ok(written) => rpc::reply(Ok(written)),
        Err(error) => failure(&error),
    }
}

async fn join(guest: &Guest, caller: &str, request: ComposeRequest) -> Result<WriteInfo> {
    if request.source_paths.is_empty() || request.destination.is_empty() {
        return Err(invalid("name `source_paths` and a `destination`"));
    }
    if request.source_paths.len() > MOST {
        return Err(invalid(format!("at most {MOST} files are joined in one call")));
    }
    let named = request.username.as_deref().filter(|name| !name.is_empty()).unwrap_or(caller);
    let (user, destination) = target(guest, named, &request.destination)?;
    let mut sources = Vec::new();
    for path in &request.source_paths {
        sources.push(target(guest, named, path)?.1);
    }
    // All are looked at before anything is made.
    let (checked, into) = (sources.clone(), destination.clone());
    let check = move || checked.iter().try_for_each(|path| open(path, &into).map(drop));
    guest.files.run(&user, check).await??;
    let mut upload = Upload::begin(&guest.files, &user, &destination, None).await?;
    for path in &sources {
        let (from, into) = (path.clone(), destination.clone());
        let file = Arc::new(guest.files.run(&user, move || open(&from, &into)).await??.file);
        let mut offset = 0;
        loop {
            let (from, file) = (path.clone(), Arc::clone(&file));
            let read = move || read::read_at(&file, &from, offset, CHUNK);
            let part = guest.files.run(&user, read).await??;
            if part.is_empty() {
                break;
            }
            offset += part.len() as u64;
            upload.write(&part).await?;
        }
    }
    upload.finish().await?;
    // The content is safe now; a source that cannot be removed only stays.
    let remove = move || {
        for path in &sources {
            let _ = rustix::fs::unlink(path);
        }
    };
    guest.files.run(&user, remove).await?;
    Ok(info(&destination, std::collections::BTreeMap::new()))
}

/// Opens a source. It must not be the destination by another name: it is removed at the end.
fn open(path: &CString, destination: &CString) -> Result<Opened> {
    let opened = read::open(path)?;
    let shown = || shorten(&show(path));
    if opened.made_up {
        return Err(invalid(format!("{} is made up by the system; copy it first", shown())));
    }
    let same = rustix::fs::fstat(&opened.file).is_ok_and(|source| {
        rustix::fs::statat(rustix::fs::CWD, destination, AtFlags::empty())
            .is_ok_and(|there| (there.st_dev, there.st_ino) == (source.st_dev, source.st_ino))
    });
    if same {
        return Err(invalid(format!("{} is the destination itself", shown())));
    }
    Ok(opened)
}
