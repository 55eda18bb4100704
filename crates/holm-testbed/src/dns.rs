//! The internet's server of names: a test says what it answers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::message::{self, Data, Reply};

/// A question that reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// In lower case, without the last dot.
    pub name: String,
    /// 1 for A, 28 for AAAA …
    pub kind: u16,
    /// How often this was asked before.
    pub nth: usize,
    /// By TCP.
    pub tcp: bool,
}

type Script = Arc<dyn Fn(&Query) -> Reply + Send + Sync>;

/// The server of names.
#[derive(Default)]
pub struct Dns {
    scripts: Mutex<HashMap<String, Script>>,
    asked: Mutex<Vec<Query>>,
}

impl Dns {
    /// What is answered to questions for a name, or for every name below one with `*.`. Others do
    /// not exist.
    pub fn on(&self, name: &str, script: impl Fn(&Query) -> Reply + Send + Sync + 'static) {
        self.scripts.lock().expect("no panic inside").insert(name.to_owned(), Arc::new(script));
    }

    /// A name with these addresses.
    pub fn name(&self, name: &str, data: &[Data]) {
        let reply = Reply::Records(data.to_vec());
        self.on(name, move |_| reply.clone());
    }

    /// All questions so far.
    pub fn asked(&self) -> Vec<Query> {
        self.asked.lock().expect("no panic inside").clone()
    }

    /// How often a name was asked for, whatever the type.
    pub fn count(&self, name: &str) -> usize {
        self.asked().iter().filter(|query| query.name == name).count()
    }

    fn ask(&self, name: String, kind: u16, tcp: bool) -> Reply {
        let mut asked = self.asked.lock().expect("no panic inside");
        let nth = asked.iter().filter(|other| other.name == name && other.kind == kind).count();
        let query = Query { name, kind, nth, tcp };
        asked.push(query.clone());
        drop(asked);
        let scripts = self.scripts.lock().expect("no panic inside");
        let found = scripts.get(&query.name).or_else(|| {
            query
                .name
                .match_indices('.')
                .find_map(|(at, _)| scripts.get(&format!("*{}", &query.name[at..])))
        });
        let script = found.cloned();
        drop(scripts);
        script.map_or(Reply::Code(3), |script| script(&query))
    }

    /// The bytes of an answer; `None` for none. By UDP what is too long is left out, and said so.
    async fn answer(&self, message: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let (end, name, kind) = message::question(message)?;
        let mut reply = self.ask(name, kind, tcp);
        loop {
            let bytes = match reply {
                Reply::Late(by, then) => {
                    tokio::time::sleep(by).await;
                    reply = *then;
                    continue;
                }
                Reply::Silent => return None,
                Reply::Bytes(bytes) => [&message[..2], &bytes].concat(),
                Reply::Code(code) => message::answer(message, end, kind, &[], code),
                Reply::Records(data) => message::answer(message, end, kind, &data, 0),
                Reply::Verbatim(data) => message::answer(message, end, 255, &data, 0),
            };
            if tcp || bytes.len() <= 1232 {
                return Some(bytes);
            }
            let mut cut = message::answer(message, end, kind, &[], 0);
            cut[2] |= 2;
            return Some(cut);
        }
    }

    pub(crate) async fn serve(self: Arc<Self>, address: SocketAddr) -> std::io::Result<()> {
        let socket = Arc::new(UdpSocket::bind(address).await?);
        let listener = TcpListener::bind(address).await?;
        let this = Arc::clone(&self);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let (this, socket) = (Arc::clone(&this), Arc::clone(&socket));
                let message = buffer[..length].to_vec();
                tokio::spawn(async move {
                    if let Some(bytes) = this.answer(&message, false).await {
                        // Who asked may have gone.
                        let _ = socket.send_to(&bytes, from).await;
                    }
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let this = Arc::clone(&self);
                let work = async move { this.connection(stream).await };
                tokio::spawn(tokio::time::timeout(Duration::from_secs(60), work));
            }
        });
        Ok(())
    }

    async fn connection(&self, mut stream: TcpStream) -> std::io::Result<()> {
        loop {
            let length = usize::from(stream.read_u16().await?);
            let mut message = vec![0; length];
            stream.read_exact(&mut message).await?;
            let Some(bytes) = self.answer(&message, true).await else { continue };
            let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            let whole = [&length.to_be_bytes()[..], &bytes[..usize::from(length)]].concat();
            stream.write_all(&whole).await?;
        }
    }
}
