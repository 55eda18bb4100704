//! `holm forward`: ports of a service's sandbox at loopback of this machine.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use holm_client::{Client, Method, Request, Upgrade};
use holm_engine::SandboxId;
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::signals::Signals;
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::ForwardSettings;

/// The protocol's name in `Upgrade`.
const PROTOCOL: &str = "holm-tunnel";
/// Connections that are open at once; more wait.
const CONNECTIONS: usize = 128;
/// Bytes of an answer at most.
const ANSWER: usize = 1 << 20;

pub(super) fn run(settings: ForwardSettings) -> Result<u8, Failure> {
    super::block_on(forward(settings))
}

async fn forward(settings: ForwardSettings) -> Result<u8, Failure> {
    let ForwardSettings { remote, sandbox, ports } = settings;
    let mut signals = Signals::catch()?;
    let client = Client::new(remote.options).map_err(|error| Failure::new(error.to_string()))?;
    there(&client, &sandbox).await?;
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let (gone, mut told) = mpsc::channel(1);
    let mut tasks = JoinSet::new();
    for (here, there) in ports {
        let (listeners, port) = listen(here).await.map_err(|error| {
            let failure = Failure::new(format!("cannot listen at port {here}: {error}"));
            failure.hint("choose another one, or 0 for any: `0:8000`")
        })?;
        for listener in listeners {
            let way = Way {
                client: client.clone(),
                path: format!("/v1/sandboxes/{sandbox}/tunnel?port={there}"),
                room: Arc::clone(&room),
                gone: gone.clone(),
            };
            tasks.spawn(way.serve(listener));
        }
        output::print(&format!("localhost:{port} is port {there} of {sandbox}\n"))?;
    }
    tokio::select! {
        () = signals.next() => Ok(exit::SUCCESS),
        Some(failure) = told.recv() => Err(failure),
    }
}

/// Fails at once where the sandbox is not there.
async fn there(client: &Client, sandbox: &SandboxId) -> Result<(), Failure> {
    let failed = |error: holm_client::Error| Failure::new(error.to_string());
    let request = Request::new(Method::GET, format!("/v1/sandboxes/{sandbox}"));
    let mut answer = client.send(request).await.map_err(failed)?;
    let status = answer.status;
    let time = std::time::Duration::from_secs(30);
    let body = answer.bytes(ANSWER, time).await.map_err(failed)?;
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (status, said["status"].as_str()) {
        // A connection lets a paused one go on.
        (200, Some("running" | "paused")) => Ok(()),
        (200, Some(other)) => Err(Failure::new(format!("sandbox {sandbox} is {other}"))),
        _ => Err(refusal(status, &said)),
    }
}

fn refusal(status: u16, said: &Value) -> Failure {
    match said["error"]["message"].as_str() {
        Some(message) => Failure::new(format!("the service refuses: {message}")),
        None => Failure::new(format!("the service answers with status {status}")),
    }
}

/// Both addresses that `localhost` has, at one port; one where there is no IPv6.
async fn listen(here: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, here))).await?;
    let port = first.local_addr()?.port();
    let mut all = vec![first];
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
        Ok(second) => all.push(second),
        // Somebody else would get what is sent to `localhost`.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        Err(_) => {}
    }
    Ok((all, port))
}

/// To one port.
#[derive(Clone)]
struct Way {
    client: Client,
    path: String,
    room: Arc<Semaphore>,
    /// Told when there is nothing to forward to any more.
    gone: mpsc::Sender<Failure>,
}

impl Way {
    async fn serve(self, listener: TcpListener) {
        loop {
            // It is never closed.
            let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let way = self.clone();
                    tokio::spawn(async move {
                        way.carry(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn(&format!("a connection was not accepted: {error}"));
                    // Out of descriptors: some are free when connections have ended.
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn carry(&self, mut stream: TcpStream) {
        // Where it cannot be set small parts wait.
        let _ = stream.set_nodelay(true);
        match self.client.upgrade(&self.path, PROTOCOL).await {
            Ok(Upgrade::Open(mut tunnel)) => {
                // A failure of either side ends both, which both see.
                let _ = copy_bidirectional(&mut stream, &mut tunnel).await;
            }
            Ok(Upgrade::Refused(status, body)) => {
                let said: Value = serde_json::from_slice(&body).unwrap_or_default();
                let failure = refusal(status, &said);
                match status {
                    // It comes back for no later connection either.
                    401 | 403 | 404 | 410 => drop(self.gone.try_send(failure)),
                    _ => warn(&failure.message),
                }
            }
            Err(error) => warn(&error.to_string()),
        }
    }
}

fn warn(text: &str) {
    output::stderr(format!("warning: {text}\n").as_bytes());
}
