//! `CONNECT`: asking a proxy for a connection to an address that was checked here.
//!
//! The proxy is asked for the address, so that it is the checked one that is reached. Only where it
//! refuses addresses, and a rule permits the target by name, it is asked for that name instead; what
//! the name means is then the proxy's word.

use std::io;

use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::{Far, Proxy, Target, direct};

/// Most bytes of a proxy's answer.
const ANSWER: usize = 16 * 1024;

/// A connection to the target through the proxy.
pub(super) async fn through(proxy: &Proxy, target: Target<'_>) -> io::Result<Far> {
    let first = ask(proxy, target.wide, &target.address.to_string()).await?;
    let status = match first {
        Asked::Open(far) => return Ok(far),
        Asked::Refused(status) => status,
    };
    let refuses_addresses = (400..500).contains(&status) && !matches!(status, 407 | 408 | 429);
    if let Some(name) = target.by_name.filter(|_| refuses_addresses) {
        let named = format!("{name}:{}", target.address.port());
        return match ask(proxy, target.wide, &named).await? {
            Asked::Open(far) => Ok(far),
            Asked::Refused(status) => Err(refused(status)),
        };
    }
    Err(refused(status))
}

fn refused(status: u16) -> io::Error {
    let text = format!("the proxy answered {status}");
    io::Error::new(io::ErrorKind::ConnectionRefused, text)
}

enum Asked {
    Open(Far),
    Refused(u16),
}

async fn ask(proxy: &Proxy, wide: bool, authority: &str) -> io::Result<Asked> {
    let mut far = reach(proxy, wide).await?;
    let credential = proxy.credential.as_ref();
    let credential = credential.map(|value| format!("Proxy-Authorization: {value}\r\n"));
    let credential = credential.unwrap_or_default();
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{credential}\r\n");
    far.write_all(head.as_bytes()).await?;
    far.flush().await?;
    match status(&mut far).await? {
        200..=299 => Ok(Asked::Open(far)),
        other => Ok(Asked::Refused(other)),
    }
}

/// A connection to the proxy itself.
async fn reach(proxy: &Proxy, wide: bool) -> io::Result<Far> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in tokio::net::lookup_host((proxy.host.as_str(), proxy.port)).await? {
        match direct(address, wide).await {
            Ok(stream) => {
                let Some(config) = &proxy.tls else { return Ok(Far::Plain(stream)) };
                let odd = |_| io::Error::from(io::ErrorKind::InvalidInput);
                let name = ServerName::try_from(proxy.host.clone()).map_err(odd)?;
                let tls = TlsConnector::from(config.clone()).connect(name, stream).await?;
                sockopt::set_socket_linger(tls.get_ref().0, None)?;
                return Ok(Far::Tls(Box::new(tls)));
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The status of the proxy's answer. Read byte by byte: what follows the head is the target's.
async fn status(far: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<u16> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "the proxy's answer is not HTTP");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() >= ANSWER {
            return Err(odd());
        }
        head.push(far.read_u8().await?);
    }
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| odd())?;
    let mut words = line.split_ascii_whitespace();
    let version = words.next().filter(|word| word.starts_with("HTTP/1."));
    let code = words.next().filter(|code| code.len() == 3).and_then(|code| code.parse().ok());
    version.and(code).ok_or_else(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_answer_of_a_proxy_is_read() {
        let check = async |text: &str, expected: Option<u16>| {
            let (mut near, mut far) = tokio::io::duplex(64 * 1024);
            near.write_all(text.as_bytes()).await.expect("written");
            drop(near);
            assert_eq!(status(&mut far).await.ok(), expected, "{text:?}");
        };
        check("HTTP/1.1 200 Connection established\r\n\r\n", Some(200)).await;
        check("HTTP/1.0 200\r\nA: b\r\n\r\nSSH-2.0", Some(200)).await;
        check("HTTP/1.1 403 Forbidden\n\n", Some(403)).await;
        check("HTTP/2 200\r\n\r\n", None).await;
        check("HTTP/1.1 2000\r\n\r\n", None).await;
        check("HTTP/1.1 200 OK\r\n", None).await;
        check("SSH-2.0-x\r\n\r\n", None).await;
        check(&format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(ANSWER)), None).await;
    }

    #[tokio::test]
    async fn what_follows_the_answer_stays() {
        let (mut near, mut far) = tokio::io::duplex(1024);
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.expect("written");
        drop(near);
        assert_eq!(status(&mut far).await.expect("a status"), 200);
        let mut rest = String::new();
        far.read_to_string(&mut rest).await.expect("read");
        assert_eq!(rest, "hello");
    }
}
