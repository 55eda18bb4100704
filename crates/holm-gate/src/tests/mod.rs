//! A gate on loopback: its listener stands for the socket inside a sandbox, a table for the kernel's
//! memory of where a connection was going, and plain listeners for the world.

mod dns;
mod hostile;
mod inject;
mod names;
mod open;
mod plain;
mod policy;
mod proxy;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::policy::{EgressPolicy, Policies};
use crate::tcp::Origin;
use crate::uplink::Addresses;
use crate::{Denial, Gate, Sockets, Uplink, UplinkOptions};

/// Stands for an address that no policy opens.
const REFUSED: &str = "127.66.0.1";
/// A wait that only a fault makes long.
const GUARD: Duration = Duration::from_mins(2);

/// Where connections are going, by the address that they come from.
type Table = Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>;

struct World {
    gate: Gate,
    inside: SocketAddr,
    table: Table,
}

fn policies(own: &str) -> Policies {
    Policies { own: own.parse::<EgressPolicy>().expect("a policy"), ceiling: None }
}

impl World {
    fn new(policy: &str) -> Self {
        Self::with(policy, UplinkOptions::default())
    }

    fn with(policy: &str, options: UplinkOptions) -> Self {
        let refused = |address: IpAddr| (address.to_string() == REFUSED).then_some("of a test");
        let uplink = Uplink::with_addresses(options, Addresses::Told(Box::new(refused)));
        Self::of(&uplink.expect("an uplink"), policy)
    }

    /// A further gate of the same process.
    fn of(uplink: &Arc<Uplink>, policy: &str) -> Self {
        Self::owned(uplink, "somebody", policy)
    }

    /// One of a sandbox of theirs.
    fn owned(uplink: &Arc<Uplink>, owner: &str, policy: &str) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let inside = listener.local_addr().expect("an address");
        let table = Table::default();
        let known = Arc::clone(&table);
        let told = move |stream: &TcpStream| {
            let known = known.lock().expect("the table").get(&stream.peer_addr()?).copied();
            known.ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        let sockets = Sockets { tcp: vec![listener.into()], dns: Vec::new() };
        let origin = Origin::Told(Box::new(told));
        let gate = Gate::with_origin(uplink, owner, sockets, &policies(policy), origin);
        let gate = gate.expect("a gate");
        Self { gate, inside, table }
    }

    /// A connection of the sandbox to `target`.
    async fn connect(&self, target: SocketAddr) -> TcpStream {
        self.try_connect(target).await.expect("connected")
    }

    /// How a connection ends for which nothing is sent. The reset may come before it is made.
    async fn tried(&self, target: SocketAddr) -> String {
        match self.try_connect(target).await {
            Ok(mut stream) => outcome(&mut stream).await,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => "reset".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    async fn try_connect(&self, target: SocketAddr) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("bound");
        let own = socket.local_addr().expect("an address");
        self.table.lock().expect("the table").insert(own, target);
        socket.connect(self.inside).await
    }

    /// Tells the sandbox's DNS table that `name` was answered with this address.
    fn resolve(&self, name: &str, address: SocketAddr) {
        let name = name.parse().expect("a name");
        self.gate.state().names.learn(&name, &[address.ip()], Duration::from_secs(60));
    }

    /// The newest denial, as `name port rule`.
    fn denied(&self) -> String {
        let Some(Denial { name, port, rule, .. }) = self.gate.denials().pop() else {
            return "nothing".to_owned();
        };
        format!("{} {port} {rule}", name.unwrap_or_default())
    }

    /// Waits until no connection is open, and nothing of one is left.
    async fn settled(&self) {
        let state = self.gate.state();
        eventually(|| {
            self.gate.counters().connections_open == 0
                && state.open.len() == 0
                && state.dialling.taken() == 0
                && state.pipes_used.load(std::sync::atomic::Ordering::Relaxed) == 0
        })
        .await;
    }
}

/// Waits until it is so.
async fn eventually(is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(GUARD, wait).await.expect("it happens");
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work).await.expect("it ends")
}

/// A listener of the world.
async fn outside() -> (TcpListener, SocketAddr) {
    outside_at("127.0.0.1").await
}

async fn outside_at(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A server that answers every byte with itself, for as many connections as come.
async fn echo() -> SocketAddr {
    let (listener, address) = outside().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _end = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// How a connection ended: `reset`, `end`, or what came.
async fn outcome(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match within(stream.read_to_end(&mut bytes)).await {
        Ok(0) => "end".to_owned(),
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => "reset".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Sends `text` and reads as much.
async fn ping(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = vec![0; text.len()];
    within(stream.read_exact(&mut answer)).await.expect("an answer");
    assert_eq!(answer, text.as_bytes());
}
