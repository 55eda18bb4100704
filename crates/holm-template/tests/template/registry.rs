//! A registry in this process, with all the ways in which one can be difficult.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What it does.
#[derive(Clone, Default)]
pub struct Manner {
    /// The layout that it serves, as the repository `team/app`; tags are names in the index.
    pub layout: PathBuf,
    /// Tokens are wanted, and given to this user only.
    pub login: Option<&'static str>,
    pub tokens: bool,
    /// Where it says that tokens are; its own place otherwise.
    pub realm: Option<String>,
    /// Blobs are elsewhere.
    pub redirect: Option<String>,
    /// Each answer with a blob breaks off after so many bytes.
    pub broken: Option<usize>,
    /// It knows no parts of blobs.
    pub whole: bool,
    /// What it sends of this blob is not it.
    pub wrong: Option<String>,
}

pub struct Registry {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&seen);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (manner, noted) = (manner.clone(), Arc::clone(&noted));
                std::thread::spawn(move || serve(stream.unwrap(), &manner, address, &noted));
            }
        });
        Self { address, seen }
    }

    /// `METHOD PATH` of every request, with what it had of `Authorization` and `Range`.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// One request for each connection.
fn serve(
    stream: TcpStream,
    manner: &Manner,
    own: SocketAddr,
    seen: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut authorization, mut range) = (String::new(), None);
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = value.to_owned();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("range") => {
                range = value.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok();
            }
            Some(_) => {}
            None => break,
        }
    }
    let note = format!(
        "{path} {authorization}{}",
        range.map_or(String::new(), |at| format!(" from {at}"))
    );
    seen.lock().unwrap().push(note);
    answer(stream, manner, own, &path, &authorization, range)
}

fn answer(
    mut out: TcpStream,
    manner: &Manner,
    own: SocketAddr,
    path: &str,
    authorization: &str,
    range: Option<usize>,
) -> Option<()> {
    let head = |status: &str, more: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n")
    };
    if path.starts_with("/token") {
        let allowed = manner.login.is_none_or(|login| login == authorization);
        let (status, body) =
            if allowed { ("200 OK", r#"{"token":"tok"}"#) } else { ("401 Unauthorized", "{}") };
        return out.write_all(format!("{}{body}", head(status, "", body.len())).as_bytes()).ok();
    }
    let blob = match path.strip_prefix("/cdn/") {
        Some(digest) => digest.to_owned(),
        None => {
            if manner.tokens && authorization != "Bearer tok" {
                let realm = manner.realm.clone().unwrap_or_else(|| format!("http://{own}/token"));
                let more = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n");
                return out.write_all(head("401 Unauthorized", &more, 0).as_bytes()).ok();
            }
            let rest = path.strip_prefix("/v2/team/app/").unwrap_or("none");
            if let Some(name) = rest.strip_prefix("manifests/") {
                return manifest(&mut out, manner, name, &head);
            }
            let Some(digest) = rest.strip_prefix("blobs/") else {
                return out.write_all(head("404 Not Found", "", 0).as_bytes()).ok();
            };
            if let Some(to) = &manner.redirect {
                let more = format!("Location: {to}/cdn/{digest}\r\n");
                return out.write_all(head("307 Temporary Redirect", &more, 0).as_bytes()).ok();
            }
            digest.to_owned()
        }
    };
    let Ok(mut bytes) = std::fs::read(manner.layout.join("blobs").join(blob.replace(':', "/")))
    else {
        return out.write_all(head("404 Not Found", "", 0).as_bytes()).ok();
    };
    if manner.wrong.as_ref() == Some(&blob) {
        bytes.iter_mut().for_each(|byte| *byte ^= 1);
    }
    let length = bytes.len();
    let from = range.filter(|_| !manner.whole).unwrap_or(0);
    let text = match from {
        0 => head("200 OK", "", length),
        from => {
            let more = format!("Content-Range: bytes {from}-{}/{length}\r\n", length - 1);
            head("206 Partial Content", &more, length - from)
        }
    };
    out.write_all(text.as_bytes()).ok()?;
    let end = manner.broken.map_or(length, |most| length.min(from + most));
    out.write_all(&bytes[from..end]).ok()
}

fn manifest(
    out: &mut TcpStream,
    manner: &Manner,
    name: &str,
    head: &dyn Fn(&str, &str, usize) -> String,
) -> Option<()> {
    let index: Value =
        serde_json::from_slice(&std::fs::read(manner.layout.join("index.json")).ok()?).ok()?;
    let tagged = index["manifests"].as_array()?.iter().find(|one| {
        one["annotations"]["org.opencontainers.image.ref.name"] == name || one["digest"] == name
    });
    let digest = tagged.map_or(name, |one| one["digest"].as_str().unwrap_or_default());
    let Ok(text) = std::fs::read(manner.layout.join("blobs").join(digest.replace(':', "/"))) else {
        return out.write_all(head("404 Not Found", "", 0).as_bytes()).ok();
    };
    let document: Value = serde_json::from_slice(&text).ok()?;
    let kind = document["mediaType"].as_str().unwrap_or("application/vnd.oci.image.index.v1+json");
    out.write_all(head("200 OK", &format!("Content-Type: {kind}\r\n"), text.len()).as_bytes())
        .ok()?;
    out.write_all(&text).ok()
}
