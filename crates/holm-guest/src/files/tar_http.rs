//! Trees up and down over `/holm/v1/tar`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use holm_wire::guest::FileWritten;
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::http::{put, target};
use super::path::show;
use super::pool::Pool;
use super::tar::Producer;
use super::tar_read::Consumer;
use crate::errors::Result;
use crate::identity::User;
use crate::server::body::{Reply, Source, next_part};
use crate::server::rpc::{self, failure};
use crate::state::Shared;

/// Bytes gathered before they are unpacked.
const GATHER: usize = 256 << 10;

type Part = (Producer, Result<Vec<u8>>);

struct TarSource {
    pool: Pool,
    user: User,
    producer: Option<Producer>,
    making: Option<Pin<Box<dyn Future<Output = Result<Part>>>>>,
}

impl Source for TarSource {
    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Bytes>>> {
        let this = &mut *self;
        if this.making.is_none() {
            let Some(mut producer) = this.producer.take() else { return Poll::Ready(None) };
            let (pool, user) = (this.pool.clone(), this.user.clone());
            this.making = Some(Box::pin(async move {
                let work = move || {
                    let part = producer.next();
                    (producer, part)
                };
                pool.run(&user, work).await
            }));
        }
        let Some(making) = &mut this.making else { return Poll::Ready(None) };
        let made = std::task::ready!(making.as_mut().poll(context));
        this.making = None;
        match made.and_then(|(producer, part)| part.map(|part| (producer, part))) {
            Ok((_, part)) if part.is_empty() => Poll::Ready(None),
            Ok((producer, part)) => {
                this.producer = Some(producer);
                Poll::Ready(Some(Ok(Bytes::from(part))))
            }
            Err(error) => Poll::Ready(Some(Err(std::io::Error::other(error)))),
        }
    }
}

/// `GET /holm/v1/tar`.
pub async fn download(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let result = async {
        let (user, path, _) = target(&guest, &request)?;
        let producer = guest.files.run(&user, move || Producer::new(&path)).await??;
        let pool = guest.files.clone();
        Ok(TarSource { pool, user, producer: Some(producer), making: None })
    };
    match result.await {
        Ok(source) => {
            let mut response = Response::new(Reply::parts(source));
            put(response.headers_mut(), "content-type", "application/x-tar");
            response
        }
        Err(error) => failure(&error),
    }
}

/// `PUT /holm/v1/tar`.
pub async fn upload(guest: Shared, request: Request<Incoming>) -> Response<Reply> {
    let result = async {
        let (user, path, _) = target(&guest, &request)?;
        let shown = show(&path);
        let chown = user.uid == 0;
        let mut consumer = guest.files.run(&user, move || Consumer::new(&path, chown)).await??;
        let mut body = request.into_body();
        let mut gathered = Vec::new();
        loop {
            let part = next_part(&mut body).await?;
            gathered.extend_from_slice(part.as_deref().unwrap_or(&[]));
            if gathered.len() >= GATHER || part.is_none() {
                let bytes = std::mem::take(&mut gathered);
                let work = move || consumer.push(&bytes).map(|()| consumer);
                consumer = guest.files.run(&user, work).await??;
            }
            if part.is_none() {
                break;
            }
        }
        let size = guest.files.run(&user, move || consumer.finish()).await??;
        Ok(FileWritten { path: shown, size })
    };
    rpc::reply(result.await)
}
