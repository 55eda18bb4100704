//! A raw connection from the host to a port inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use holm_wire::connect::{Code, Error};
use holm_wire::paths::guest::TUNNEL_PROTOCOL as PROTOCOL;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::errors::{Result, invalid};
use crate::files::query::Query;
use crate::server::body::Reply;
use crate::server::route::{asks_for, switching};
use crate::server::rpc::failure;

/// How long one connect may take. On loopback an answer comes at once, unless the listener's queue
/// is full.
const CONNECT: Duration = Duration::from_secs(5);

/// `POST /holm/v1/tunnel`.
pub async fn open(mut request: Request<Incoming>) -> Response<Reply> {
    let stream = match prepare(&request).await {
        Ok(stream) => stream,
        Err(error) => return failure(&error),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::task::spawn_local(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let mut stream = stream;
        // An end or an error on either side ends both; both sides see it.
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await;
    });
    switching(PROTOCOL)
}

async fn prepare(request: &Request<Incoming>) -> Result<TcpStream> {
    if !asks_for(request, PROTOCOL) {
        return Err(invalid(format!(
            "this call needs `Connection: upgrade` and `Upgrade: {PROTOCOL}`"
        )));
    }
    let port = Query::parse(request.uri().query()).number("port", 10)?;
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| invalid("`port` must be between 1 and 65535"))?;
    let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    for address in addresses {
        let connect = TcpStream::connect((address, port));
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT, connect).await {
            // Small writes go on at once; whoever talks through the tunnel decides about delays.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
    }
    Err(Error::new(Code::Unavailable, format!("nothing listens on port {port} in the sandbox")))
}
