//! A forward proxy for `CONNECT`, as networks have that let nothing else out.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpStream;

use crate::SITE4;
use crate::counted::Counted;

type Judge = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The proxy.
#[derive(Default)]
pub struct Proxy {
    heads: Mutex<Vec<String>>,
    judge: Mutex<Option<Judge>>,
}

impl Proxy {
    /// Heads of requests that reached it.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no panic inside").clone()
    }

    /// Targets (`host:port`) for which it refuses with 403; by itself it lets everything through.
    pub fn refuse(&self, judge: impl Fn(&str) -> bool + Send + Sync + 'static) {
        *self.judge.lock().expect("no panic inside") = Some(Arc::new(judge));
    }

    pub(crate) async fn serve(&self, mut stream: Counted) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
            if head.len() > 1 << 16 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.heads.lock().expect("no panic inside").push(head.clone());
        let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
        let Some(target) = target else {
            return stream.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n").await;
        };
        let judge = self.judge.lock().expect("no panic inside").clone();
        if judge.is_some_and(|judge| judge(target)) {
            return stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n").await;
        }
        let mut there = TcpStream::connect(address(target)).await?;
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
        copy_bidirectional(&mut stream, &mut there).await.map(drop)
    }
}

/// Names all lead to the one site.
fn address(target: &str) -> SocketAddr {
    target.parse().unwrap_or_else(|_| {
        let port = target.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(80);
        SocketAddr::new(IpAddr::V4(SITE4), port)
    })
}
