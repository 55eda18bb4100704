//! Manifest, config and layers of an image in a registry.

use std::io::Read;
use std::rc::Rc;

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::runtime::Runtime;

use super::blob::Blob;
use super::session::{SILENCE, Session, unreachable};
use super::{Access, Reference, Version};
use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::Digest;
use crate::import::assemble::{Content, Image, Source, assemble};
use crate::import::manifest::{self, MAX_TEXT, Manifest, refused};
use crate::import::{Progress, Request, config};
use crate::library::Library;
use crate::template::Template;

/// Indexes below indexes that are followed.
const MAX_DEPTH: usize = 4;

/// Makes a template of an image in a registry. Blocks, in one thread; not to be called from async code.
///
/// # Errors
/// When it cannot be had, is damaged or refused, or the name is taken. Nothing is left then.
pub fn pull(
    library: &Library,
    request: &Request,
    image: &Reference,
    access: &Access,
    progress: &dyn Progress,
) -> Result<Template> {
    library.check_free(&request.name, request.replace)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .tried("start an event loop")?;
    let runtime = Rc::new(runtime);
    let mut hosts: Vec<&str> = access.mirrors.iter().map(String::as_str).collect();
    hosts.push(&image.host);
    let mut refused = None;
    for host in hosts {
        let session = Session::new(access, host, image)?;
        match runtime.block_on(resolve(&session, image)) {
            Ok(found) => {
                let image = found.image(&runtime, Rc::new(session), image)?;
                return assemble(library, request, image, progress);
            }
            // The next one may have it.
            Err(error) if error.kind == TemplateErrorKind::Registry => {
                tracing::info!(host, error = %error, "no image there");
                refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or_else(|| TemplateError::internal("no registry")))
}

/// An image whose layers are not read yet.
struct Found {
    manifest: manifest::Image,
    config: Vec<u8>,
    digest: Digest,
}

async fn resolve(session: &Session<'_>, image: &Reference) -> Result<Found> {
    let mut wanted = match &image.version {
        Version::Tag(_) => None,
        Version::Digest(digest) => Some(digest.clone()),
    };
    let mut what = format!("manifests/{}", image.version);
    for _ in 0..MAX_DEPTH {
        let (text, said) = text(session, &what, true).await?;
        let digest = Digest::of_bytes(&text);
        if wanted.as_ref().is_some_and(|wanted| *wanted != digest) {
            return Err(damaged("manifest", wanted.as_ref()));
        }
        match manifest::read(&text, said.as_deref())? {
            Manifest::Image(found) => {
                let wanted = found.config.digest()?;
                let (config, _) = self::text(session, &format!("blobs/{wanted}"), false).await?;
                if Digest::of_bytes(&config) != wanted {
                    return Err(damaged("config", Some(&wanted)));
                }
                return Ok(Found { manifest: found, config, digest });
            }
            Manifest::Index(all) => {
                let digest = manifest::choose(&all, None)?.digest()?;
                what = format!("manifests/{digest}");
                wanted = Some(digest);
            }
        }
    }
    Err(refused("the image's indexes lead to each other"))
}

/// A short answer, with its type.
async fn text(
    session: &Session<'_>,
    what: &str,
    manifest: bool,
) -> Result<(Vec<u8>, Option<String>)> {
    let mut headers = HeaderMap::new();
    if manifest {
        for kind in [
            manifest::OCI_INDEX,
            manifest::OCI_MANIFEST,
            manifest::DOCKER_LIST,
            manifest::DOCKER_MANIFEST,
        ] {
            headers.append(ACCEPT, HeaderValue::from_static(kind));
        }
    }
    let mut response = session.get(what, &headers).await?;
    let said = response
        .header(&CONTENT_TYPE)
        .map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned());
    let most = usize::try_from(MAX_TEXT).unwrap_or(usize::MAX);
    let bytes = response.bytes(most, SILENCE).await.map_err(unreachable)?;
    Ok((bytes.to_vec(), said))
}

impl Found {
    fn image<'a>(
        self,
        runtime: &Rc<Runtime>,
        session: Rc<Session<'a>>,
        reference: &Reference,
    ) -> Result<Image<'a>> {
        let (config, ids) = config::read(&self.config, self.manifest.layers.len())?;
        let mut layers = Vec::new();
        for ((descriptor, packing), id) in self.manifest.layers.into_iter().zip(ids) {
            let digest = descriptor.digest()?;
            let size = descriptor.size;
            let (runtime, session, named) =
                (Rc::clone(runtime), Rc::clone(&session), digest.clone());
            let open = move || {
                let blob: Box<dyn Read + 'a> = Box::new(Blob::new(runtime, session, named, size));
                Ok((blob, size))
            };
            layers.push(Source {
                packing,
                digest: Some(digest),
                size: Some(size),
                diff_id: Some(id),
                content: Content::Blob(Box::new(open)),
            });
        }
        let source = match &reference.version {
            Version::Tag(_) => format!("{reference}@{}", self.digest),
            Version::Digest(_) => reference.to_string(),
        };
        Ok(Image { layers, config, source })
    }
}

fn damaged(what: &str, digest: Option<&Digest>) -> TemplateError {
    let digest = digest.map(ToString::to_string).unwrap_or_default();
    TemplateError::new(
        TemplateErrorKind::Damaged,
        format!("the image's {what} is not what its digest {digest} says"),
    )
}
