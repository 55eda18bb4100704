//! A site of HTTP. What it does is in the path, so that one server is enough for all tests:
//!
//! * `/echo` sends the request's head back,
//! * `/bytes/N` sends N bytes,
//! * `/drip/N/MS` sends N bytes, one each MS milliseconds,
//! * `/sip/MS` reads the body in pieces of 1 KiB, one each MS milliseconds,
//! * `/hang` never answers, `/reset` resets the connection,
//! * `/files/…` are files, and a page with links to them; what has `.git/` in it is git's,
//! * everything else says hello, and how long the body was.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::git::{Repositories, is_git};
use crate::seen::{Connection, Request, Seen};

/// What every site here shares.
#[derive(Clone)]
pub struct Sites {
    pub seen: Arc<Seen>,
    pub repositories: Arc<Repositories>,
}

/// What has to become of the connection.
#[derive(PartialEq, Eq)]
pub enum End {
    Close,
    Reset,
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Sites {
    /// Serves a connection to its end.
    pub async fn serve(
        &self,
        stream: &mut impl Stream,
        connection: &Connection,
    ) -> io::Result<End> {
        let mut buffer = Vec::new();
        loop {
            let Some((head, mut rest)) = head(stream, &mut buffer).await? else {
                return Ok(End::Close);
            };
            let Some(mut request) = parse(&head, connection) else {
                respond(stream, "400 Bad Request", "", b"").await?;
                return Ok(End::Close);
            };
            let length = request.header("content-length").and_then(|text| text.parse().ok());
            request.body = length.unwrap_or(0);
            if let Some(pause) = number(&request.path, "/sip/") {
                self.seen.request(request.clone());
                sip(stream, request.body - rest.len().min(request.body), pause).await?;
                respond(stream, "200 OK", "", b"sipped\n").await?;
                return Ok(End::Close);
            }
            let mut body = rest.split_off(0);
            buffer = body.split_off(request.body.min(body.len()));
            let total = request.body;
            let mut left = total - body.len();
            let is_git = is_git(&request.path);
            while left > 0 {
                let mut piece = vec![0; left.min(1 << 16)];
                let read = stream.read(&mut piece).await?;
                if read == 0 {
                    return Ok(End::Close);
                }
                left -= read;
                if is_git {
                    body.extend(&piece[..read]);
                }
            }
            self.seen.request(request.clone());
            let closes = request.header("connection").is_some_and(|text| text == "close");
            if self.answer(stream, request, &head, body).await? == End::Reset {
                return Ok(End::Reset);
            }
            if closes {
                stream.shutdown().await?;
                return Ok(End::Close);
            }
        }
    }

    async fn answer(
        &self,
        stream: &mut impl Stream,
        request: Request,
        head: &str,
        body: Vec<u8>,
    ) -> io::Result<End> {
        let path = request.path.clone();
        if is_git(&path) {
            let repositories = Arc::clone(&self.repositories);
            let asked = tokio::task::spawn_blocking(move || repositories.answer(&request, &body));
            let (status, headers, body) = asked.await.ok().flatten().unwrap_or((
                "404 Not Found".to_owned(),
                String::new(),
                Vec::new(),
            ));
            respond(stream, &status, &headers, &body).await?;
        } else if let Some(name) = path.strip_prefix("/files/") {
            let file = self.repositories.file(name);
            let kind = if name.is_empty() { "Content-Type: text/html" } else { "" };
            let status = if file.is_some() { "200 OK" } else { "404 Not Found" };
            respond(stream, status, kind, &file.unwrap_or_default()).await?;
        } else if path == "/echo" {
            respond(stream, "200 OK", "Content-Type: text/plain", head.as_bytes()).await?;
        } else if let Some(length) = number(&path, "/bytes/") {
            stream.write_all(&ok(length)).await?;
            let piece = vec![b'x'; 1 << 18];
            let mut left = usize::try_from(length).unwrap_or(usize::MAX);
            while left > 0 {
                let now = left.min(piece.len());
                stream.write_all(&piece[..now]).await?;
                left -= now;
            }
            stream.flush().await?;
        } else if let Some(length) = number(&path, "/drip/") {
            let pause = path.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(100);
            stream.write_all(&ok(length)).await?;
            for _ in 0..length {
                stream.write_all(b"x").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        } else if path == "/hang" {
            // Until the other side has had enough.
            stream.read_u8().await?;
        } else if path == "/reset" {
            return Ok(End::Reset);
        } else {
            let hello = format!("hello {}\n", request.body);
            let closes = request.header("connection") == Some("close");
            let more = if closes { "\r\nConnection: close" } else { "" };
            let headers = format!("Content-Type: text/plain{more}");
            respond(stream, "200 OK", &headers, hello.as_bytes()).await?;
        }
        Ok(End::Close)
    }
}

fn ok(length: u64) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

async fn respond(
    stream: &mut impl Stream,
    status: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<()> {
    let length = body.len();
    let more = if headers.is_empty() { String::new() } else { format!("{headers}\r\n") };
    let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    stream.flush().await
}

async fn sip(stream: &mut impl Stream, mut left: usize, pause: u64) -> io::Result<()> {
    let mut piece = [0; 1024];
    while left > 0 {
        let most = left.min(piece.len());
        let read = stream.read(&mut piece[..most]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= read;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    Ok(())
}

/// The number after the beginning of a path.
fn number(path: &str, start: &str) -> Option<u64> {
    path.strip_prefix(start)?.split(['/', '?']).next()?.parse().ok()
}

/// A request's head, and what came after it; `None` at the end of the connection.
async fn head(
    stream: &mut impl Stream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<(String, Vec<u8>)>> {
    loop {
        // As tolerant as servers are, so that what misleads those is seen here too.
        let crlf = buffer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let lf = buffer.windows(2).position(|two| two == b"\n\n").map(|at| at + 2);
        if let Some(end) = crlf.into_iter().chain(lf).min() {
            let rest = buffer.split_off(end);
            let head = String::from_utf8_lossy(buffer).into_owned();
            buffer.clear();
            return Ok(Some((head, rest)));
        }
        if buffer.len() > 1 << 16 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn parse(head: &str, connection: &Connection) -> Option<Request> {
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    Some(Request {
        connection: connection.clone(),
        method,
        path,
        headers: headers.collect(),
        body: 0,
    })
}
