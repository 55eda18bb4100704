//! A server of names on loopback that says what a test tells it, true or not, and notes what it was
//! asked. It knows nothing of the gate's own code.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

/// Types that tests use.
pub const A: u16 = 1;
pub const CNAME: u16 = 5;
pub const SOA: u16 = 6;
pub const AAAA: u16 = 28;

/// A record: owner, type, time, data.
pub type Record = (&'static str, u16, u32, Vec<u8>);

/// What to say to a question.
pub enum Say {
    /// A whole answer: code, answers, authorities.
    Answer(u8, Vec<Record>, Vec<Record>),
    /// Nothing fits: ask by TCP.
    Truncated,
    /// Nothing at all.
    Nothing,
    /// These datagrams, made of the question.
    Raw(Vec<Vec<u8>>),
}

/// What was asked.
#[derive(Clone)]
pub struct Asked {
    pub name: String,
    pub kind: u16,
    pub tcp: bool,
    /// The message itself, and who sent it.
    pub message: Vec<u8>,
    pub from: SocketAddr,
}

type Script = dyn Fn(&Asked) -> Say + Send + Sync;

/// The server; dropping it ends it.
pub struct Upstream {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Upstream {
    pub async fn start(script: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        // The same port for both; somebody else may have the second one.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
            let address = udp.local_addr().expect("an address");
            if let Ok(tcp) = TcpListener::bind(address).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let tasks = vec![
            tokio::spawn(datagrams(udp, Arc::clone(&script), Arc::clone(&asked))),
            tokio::spawn(streams(tcp, script, Arc::clone(&asked))),
        ];
        Self { address, asked, tasks }
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// The names that were asked so far.
    pub fn names(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.name).collect()
    }
}

async fn datagrams(socket: UdpSocket, script: Arc<Script>, log: Arc<Mutex<Vec<Asked>>>) {
    let mut buffer = [0; 2048];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let asked = read(&buffer[..length], from, false);
        log.lock().expect("no panic").push(asked.clone());
        for message in said(&asked, script(&asked)) {
            let _gone = socket.send_to(&message, from).await;
        }
    }
}

async fn streams(listener: TcpListener, script: Arc<Script>, log: Arc<Mutex<Vec<Asked>>>) {
    while let Ok((mut stream, from)) = listener.accept().await {
        let serve = async {
            let length = stream.read_u16().await?;
            let mut message = vec![0; usize::from(length)];
            stream.read_exact(&mut message).await?;
            let asked = read(&message, from, true);
            log.lock().expect("no panic").push(asked.clone());
            for message in said(&asked, script(&asked)) {
                stream.write_u16(u16::try_from(message.len()).expect("short")).await?;
                stream.write_all(&message).await?;
            }
            stream.shutdown().await
        };
        let _gone: io::Result<()> = serve.await;
    }
}

fn read(message: &[u8], from: SocketAddr, tcp: bool) -> Asked {
    let mut at = 12;
    let mut labels = Vec::new();
    while message[at] != 0 {
        let length = usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..at + 1 + length]).into_owned());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([message[at + 1], message[at + 2]]);
    Asked { name: labels.join("."), kind, tcp, message: message.to_vec(), from }
}

fn said(asked: &Asked, say: Say) -> Vec<Vec<u8>> {
    match say {
        Say::Answer(rcode, answers, authorities) => {
            vec![message(asked, 0x8180 | u16::from(rcode), &answers, &authorities)]
        }
        Say::Truncated => vec![message(asked, 0x8380, &[], &[])],
        Say::Nothing => Vec::new(),
        Say::Raw(messages) => messages,
    }
}

/// An answer to what was asked.
pub fn message(asked: &Asked, flags: u16, answers: &[Record], more: &[Record]) -> Vec<u8> {
    let mut message = asked.message[..2].to_vec();
    let count = |records: &[Record]| u16::try_from(records.len()).expect("few");
    for field in [flags, 1, count(answers), count(more), 0] {
        message.extend(field.to_be_bytes());
    }
    message.extend(wire(&asked.name));
    message.extend(asked.kind.to_be_bytes());
    message.extend([0, 1]);
    for (name, kind, ttl, data) in answers.iter().chain(more) {
        message.extend(wire(name));
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message.extend(ttl.to_be_bytes());
        message.extend(u16::try_from(data.len()).expect("short").to_be_bytes());
        message.extend(data);
    }
    message
}

/// A name on the wire.
pub fn wire(name: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in name.split('.') {
        wire.push(u8::try_from(label.len()).expect("short"));
        wire.extend(label.bytes());
    }
    wire.push(0);
    wire
}

pub fn a(name: &'static str, address: &str) -> Record {
    let address: Ipv4Addr = address.parse().expect("an address");
    (name, A, 60, address.octets().to_vec())
}

pub fn aaaa(name: &'static str, address: &str) -> Record {
    let address: std::net::Ipv6Addr = address.parse().expect("an address");
    (name, AAAA, 60, address.octets().to_vec())
}

pub fn cname(name: &'static str, target: &str) -> Record {
    (name, CNAME, 60, wire(target))
}

pub fn yes(answers: Vec<Record>) -> Say {
    Say::Answer(0, answers, Vec::new())
}
