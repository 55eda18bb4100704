//! The internet: one thread with an event loop of its own, in a network of its own.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;
use tokio_rustls::LazyConfigAcceptor;

use crate::counted::Counted;
use crate::dns::Dns;
use crate::git::Repositories;
use crate::host::Host;
use crate::http::{End, Sites};
use crate::message::Data;
use crate::proxy::Proxy;
use crate::seen::{Connection, Seen};
use crate::wire::Wire;
use crate::{
    DNS4, DNS6, ECHO_PORT, GREETING_PORT, HTTP_PORTS, OTHER4, OTHER6, PROXY_PORT, SITE4, SITE6,
    TLS_PORT, UDP_PORTS, tls,
};

/// The internet and what is known of it.
pub struct Internet {
    /// What reached servers.
    pub seen: Arc<Seen>,
    /// Names.
    pub dns: Arc<Dns>,
    /// The forward proxy.
    pub proxy: Arc<Proxy>,
    /// Repositories of git.
    pub repositories: Arc<Repositories>,
    /// What went over the cable.
    pub wire: Wire,
    /// Its network.
    pub host: Host,
    over: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
enum Service {
    Http,
    Tls,
    Greeting,
    Echo,
    Proxy,
}

#[derive(Clone)]
struct World {
    sites: Sites,
    proxy: Arc<Proxy>,
    tls: Arc<rustls::ServerConfig>,
}

impl Internet {
    pub(crate) fn start(host: Host) -> Result<Self, String> {
        let seen = Arc::<Seen>::default();
        let dns = Arc::<Dns>::default();
        let proxy = Arc::<Proxy>::default();
        let repositories = Arc::<Repositories>::default();
        dns.name("site.bed.test", &[Data::A(SITE4), Data::Aaaa(SITE6)]);
        dns.name("other.bed.test", &[Data::A(OTHER4), Data::Aaaa(OTHER6)]);
        let sites = Sites { seen: Arc::clone(&seen), repositories: Arc::clone(&repositories) };
        let world = World { sites, proxy: Arc::clone(&proxy), tls: tls::server()? };
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let wire = Wire::default();
        let over = Arc::<AtomicBool>::default();
        let names = Arc::clone(&dns);
        let network = host.network()?;
        let (for_packets, until) = (wire.clone(), Arc::clone(&over));
        // Both live in that network, also with what they open later.
        let packets_ready = ready.clone();
        let also = network.clone();
        let packets = thread::spawn(move || match also.enter().and_then(|()| Wire::socket()) {
            Ok(socket) => {
                // Whoever waits for it may have given up, here and below.
                let _ = packets_ready.send(Ok(()));
                for_packets.watch(&socket, || until.load(Ordering::SeqCst));
            }
            Err(error) => drop(packets_ready.send(Err(error))),
        });
        let servers = thread::spawn(move || {
            let begun = network.enter().and_then(|()| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| error.to_string())?;
                let opened = runtime.block_on(open(&world, names));
                opened.map(|()| runtime).map_err(|error| format!("a server: {error}"))
            });
            match begun {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    // An error means that whoever could say stop has gone.
                    let _ = runtime.block_on(stopped);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        });
        let threads = vec![packets, servers];
        let this =
            Self { seen, dns, proxy, repositories, wire, host, over, stop: Some(stop), threads };
        for _ in 0..2 {
            is_ready.recv().map_err(|error| error.to_string())??;
        }
        Ok(this)
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        for thread in self.threads.drain(..) {
            // A panic there was printed when it happened.
            let _ = thread.join();
        }
    }
}

async fn open(world: &World, dns: Arc<Dns>) -> io::Result<()> {
    for address in [IpAddr::V4(DNS4), IpAddr::V6(DNS6)] {
        Arc::clone(&dns).serve(SocketAddr::new(address, 53)).await?;
    }
    let mut services: Vec<_> = HTTP_PORTS.map(|port| (port, Service::Http)).to_vec();
    services.extend([
        (TLS_PORT, Service::Tls),
        (GREETING_PORT, Service::Greeting),
        (ECHO_PORT, Service::Echo),
        (PROXY_PORT, Service::Proxy),
    ]);
    for (port, service) in services {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await?;
        tokio::spawn(accept(listener, service, world.clone()));
    }
    for port in UDP_PORTS {
        for address in [IpAddr::V4(SITE4), IpAddr::V6(SITE6)] {
            let socket = UdpSocket::bind((address, port)).await?;
            let seen = Arc::clone(&world.sites.seen);
            tokio::spawn(async move {
                let mut buffer = [0; 2048];
                while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                    seen.datagram(SocketAddr::new(address, port), from);
                    let _ = socket.send_to(&buffer[..length], from).await;
                }
            });
        }
    }
    Ok(())
}

async fn accept(listener: TcpListener, service: Service, world: World) {
    loop {
        // Too many open files, say: those who wait are taken as soon as there is room.
        let Ok((stream, from)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let Ok(to) = stream.local_addr() else { continue };
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let connection = Connection { to: plain(to), from: plain(from), sni: None };
        let world = world.clone();
        tokio::spawn(async move { world.serve(stream, connection, service).await });
    }
}

impl World {
    /// An error is an end like any other.
    async fn serve(
        &self,
        stream: TcpStream,
        mut connection: Connection,
        service: Service,
    ) -> io::Result<()> {
        let seen = &self.sites.seen;
        seen.accept();
        if !matches!(service, Service::Tls) {
            seen.connection(&connection);
        }
        let mut stream = Counted::new(stream, Arc::clone(seen));
        match service {
            Service::Http => {
                if self.sites.serve(&mut stream, &connection).await? == End::Reset {
                    reset(&stream.stream)?;
                }
                Ok(())
            }
            Service::Tls => {
                let accepted =
                    LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await;
                if let Ok(hello) = &accepted {
                    connection.sni = hello.client_hello().server_name().map(str::to_owned);
                }
                seen.connection(&connection);
                let mut stream = accepted?.into_stream(Arc::clone(&self.tls)).await?;
                if self.sites.serve(&mut stream, &connection).await? == End::Reset {
                    reset(&stream.get_ref().0.stream)?;
                }
                Ok(())
            }
            Service::Greeting => {
                stream.write_all(b"220 greetings\r\n").await?;
                echo(stream).await
            }
            Service::Echo => echo(stream).await,
            Service::Proxy => self.proxy.serve(stream).await,
        }
    }
}

async fn echo(mut stream: Counted) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..read]).await?;
    }
}

/// What is closed after this, is reset.
fn reset(stream: &TcpStream) -> io::Result<()> {
    set_socket_linger(stream, Some(std::time::Duration::ZERO)).map_err(Into::into)
}
