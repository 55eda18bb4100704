//! Connections: name to address, proxy, TLS.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::error::{Error, ErrorKind};
use crate::proxy::Proxy;
use crate::public;
use crate::url::Url;

/// A proxy's answer is longer than this only where it is none.
const PROXY_HEAD: usize = 16 << 10;

/// A network: its address and the length of its prefix.
pub type Network = (IpAddr, u8);

/// Which addresses may be connected to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reach {
    /// Any.
    #[default]
    Any,
    /// Any that is not this machine's, nor link-local, where clouds tell their machines' secrets.
    Elsewhere,
    /// Public ones that are not this machine's, and those in these networks.
    Public(Vec<Network>),
}

impl Reach {
    /// True where it may be connected to.
    #[must_use]
    pub fn admits(&self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Elsewhere => !public::is_own(ip) && !public::is_near(ip),
            Self::Public(also) => {
                also.iter().any(|(net, bits)| public::is_in(ip, *net, *bits))
                    || (public::is_public(ip) && !public::is_own(ip))
            }
        }
    }
}

/// A stream in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes connections to one place.
pub(crate) struct Connector {
    pub url: Url,
    pub proxy: Option<Proxy>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub reach: Reach,
    /// Bound of a whole connection being made.
    pub within: Duration,
}

impl Connector {
    /// True where requests name the whole URL, because a proxy has to know it.
    pub fn in_absolute_form(&self) -> bool {
        self.proxy.is_some() && self.tls.is_none()
    }

    pub async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let connecting = timeout(self.within, self.connect_now());
        connecting.await.unwrap_or_else(|_| {
            let seconds = self.within.as_secs_f32();
            Err(self.unreachable(format!("no connection within {seconds} s")))
        })
    }

    async fn connect_now(&self) -> Result<Box<dyn Stream>, Error> {
        let stream = match &self.proxy {
            None => self.dial(self.url.host(), self.url.port(), &self.reach).await?,
            Some(proxy) => {
                let mut stream = self.dial(&proxy.host, proxy.port, &Reach::Any).await?;
                if self.tls.is_some() {
                    self.tunnel(&mut stream, proxy).await?;
                }
                stream
            }
        };
        let Some(config) = &self.tls else { return Ok(Box::new(stream)) };
        let failed = |reason: String| {
            Error::new(ErrorKind::Tls, format!("no TLS with {}: {reason}", self.url.origin()))
        };
        let name = ServerName::try_from(self.url.host().to_owned());
        let name = name.map_err(|error| failed(error.to_string()))?;
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| failed(error.to_string()))?))
    }

    fn unreachable(&self, reason: String) -> Error {
        let via = self.proxy.as_ref().map_or("", |_| " (through the proxy)");
        let text = format!("cannot connect to {}{via}: {reason}", self.url.origin());
        Error::new(ErrorKind::Unreachable, text)
    }

    /// Tries the addresses of a name one after the other. The address that is checked is the one
    /// that is connected to.
    async fn dial(&self, host: &str, port: u16, reach: &Reach) -> Result<TcpStream, Error> {
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(ip) => vec![(ip, port).into()],
            Err(_) => match lookup_host((host, port)).await {
                Ok(found) => found.collect(),
                Err(_) => return Err(self.unreachable(format!("the name {host} is not known"))),
            },
        };
        let mut last = None;
        let mut forbidden = false;
        for address in found {
            if !reach.admits(address.ip()) {
                forbidden = true;
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    prepare(&stream);
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) => self.unreachable(error.kind().to_string()),
            None if forbidden => Error::new(
                ErrorKind::Forbidden,
                format!("{} has no address that may be reached", self.url.origin()),
            ),
            None => self.unreachable(format!("{host} has no address")),
        })
    }

    /// Asks the proxy for a way through.
    async fn tunnel(&self, stream: &mut TcpStream, proxy: &Proxy) -> Result<(), Error> {
        let failed = |reason: &str| {
            let text = format!("the proxy gives no way to {}: {reason}", self.url.origin());
            Error::new(ErrorKind::Proxy, text)
        };
        let target = self.url.authority(false);
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(credential) = &proxy.credential {
            head.extend_from_slice(b"Proxy-Authorization: ");
            head.extend_from_slice(credential.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        let broken = |_| failed("it ended the connection");
        stream.write_all(&head).await.map_err(broken)?;
        // The other side speaks only when it was spoken to, so nothing of it can be read here.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= PROXY_HEAD {
                return Err(failed("it is no HTTP proxy"));
            }
            if stream.read_buf(&mut answer).await.map_err(broken)? == 0 {
                return Err(failed("it ended the connection"));
            }
        }
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        match status {
            [b'2', ..] => Ok(()),
            b"407" => Err(failed("it wants a user and a password (407)")),
            status => Err(failed(&format!("it answers {}", String::from_utf8_lossy(status)))),
        }
    }
}

/// A call may run for hours without a word, so that a peer that is gone has to be noticed by the
/// kernel: it asks after a minute, and gives up two minutes later.
fn prepare(stream: &TcpStream) {
    let minute = Duration::from_secs(60);
    let all = sockopt::set_tcp_nodelay(stream, true)
        .and_then(|()| sockopt::set_socket_keepalive(stream, true))
        .and_then(|()| sockopt::set_tcp_keepidle(stream, minute))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, minute / 4))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 8));
    if let Err(error) = all {
        tracing::debug!(%error, "a socket takes no option");
    }
}
