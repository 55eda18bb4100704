//! The client's side: bytes out, an answer in.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// Longer than anything here takes, so that a hang is a failure.
pub(crate) const HANG: Duration = Duration::from_secs(50);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends these bytes and reads one answer.
pub(crate) async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &str,
) -> Answer {
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream.flush().await.expect("sent");
    answer(stream).await
}

/// Reads one answer: its body by its length, by chunks (as they came), or to the end.
pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    timeout(HANG, read(stream)).await.expect("an answer")
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => panic!("no answer but {}", String::from_utf8_lossy(&head)),
        }
    }
    let head = String::from_utf8(head).expect("text");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = field("content-length") {
        body = vec![0; length.parse().expect("a length")];
        stream.read_exact(&mut body).await.expect("a body");
    } else if field("transfer-encoding").is_some() {
        while !(body.ends_with(b"\r\n\r\n") && body.windows(3).any(|part| part == b"0\r\n")) {
            body.push(stream.read_u8().await.expect("a chunk"));
        }
    } else if status >= 200 && status != 204 && status != 304 {
        let _end = stream.read_to_end(&mut body).await;
    }
    Answer { status, head, body: String::from_utf8(body).expect("text") }
}
