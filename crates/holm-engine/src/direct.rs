//! The direct way to a port of a sandbox: by a socket that was made in the sandbox's network and is
//! connected from here, so that nothing of a connection goes through the guest.
//!
//! Making such sockets takes a helper of the driver some milliseconds. So a few are kept for each
//! sandbox that visitors come to, and made in the background; who finds none takes the guest's
//! tunnel. They are the sandbox's own: no other one has a way to them, and they end with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use holm_runtime::PortSockets;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::sandbox::Sandbox;
use crate::shares::Places;
use crate::{AccountId, Engine, Shares};

/// How long one connect may take. On loopback an answer comes at once, unless the listener's queue
/// is full.
const CONNECT: Duration = Duration::from_secs(5);
/// Most sockets kept for one sandbox.
const MOST: [usize; 2] = [32, 8];
/// With fewer than that, more are made.
const FEW: [usize; 2] = [8, 2];
/// Most sockets kept for all sandboxes, and for those of one account.
const ALL: u32 = 640;
const EACH: u32 = 200;
/// They are closed when for so long nobody has wanted one.
const IDLE: Duration = Duration::from_secs(10);
/// For so many sandboxes they are made at once.
const TURNS: usize = 4;
/// Longest wait for new ones.
const MAKE: Duration = Duration::from_secs(15);
/// The next ones are made so long after some were, and after none could be.
const PAUSE: Duration = Duration::from_millis(20);
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// What all sandboxes share.
#[derive(Debug)]
pub(crate) struct Directs {
    /// Places for sockets that are kept.
    places: Shares<AccountId>,
    /// Who has sockets made.
    turns: Semaphore,
}

impl Default for Directs {
    fn default() -> Self {
        Self { places: Shares::new(ALL, EACH), turns: Semaphore::new(TURNS) }
    }
}

/// What came of trying it.
#[derive(Debug)]
pub(crate) enum Tried {
    Connected(TcpStream),
    /// Nothing listens there.
    Refused,
    /// There is no such way now.
    NoWay,
}

/// The sockets that are kept for one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Direct(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// For IPv4 and IPv6.
    sockets: [Vec<OwnedFd>; 2],
    /// For as many as there may be.
    places: Option<Places>,
    /// When somebody last wanted one.
    wanted: Option<Instant>,
    /// Before that none are made.
    not_before: Option<Instant>,
    is_making: bool,
    is_watched: bool,
    /// The sandbox has ended, or its driver has no such way.
    is_closed: bool,
    /// The host has no IPv6, so that a service cannot listen there.
    is_v4_only: bool,
}

impl Direct {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Every change under the lock is whole even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are sockets now.
    pub fn is_open(&self) -> bool {
        !self.lock().sockets[0].is_empty()
    }

    /// Closes all, for good.
    pub fn close(&self) {
        let mut kept = self.lock();
        kept.is_closed = true;
        kept.drop_all();
    }
}

impl Kept {
    fn drop_all(&mut self) {
        self.sockets = Default::default();
        self.places = None;
    }

    /// Whether more are to be made now; whoever is told so makes them.
    fn begin_making(&mut self, now: Instant) -> bool {
        let families = if self.is_v4_only { 1 } else { 2 };
        let few = (0..families).any(|family| self.sockets[family].len() < FEW[family]);
        let is_time = self.not_before.is_none_or(|time| now >= time);
        let begins = few && is_time && !self.is_making && !self.is_closed;
        self.is_making |= begins;
        begins
    }

    fn made(&mut self, now: Instant, made: PortSockets, places: Option<Places>) {
        (self.is_making, self.not_before) = (false, Some(now + PAUSE));
        if self.is_closed {
            return;
        }
        self.is_v4_only = made.v6.is_empty();
        for (family, new) in [made.v4, made.v6].into_iter().enumerate() {
            // The oldest go first; what is over is closed.
            self.sockets[family].splice(0..0, new);
            self.sockets[family].truncate(MOST[family]);
        }
        self.places = places.or(self.places.take());
        if self.places.is_none() {
            // They were given back meanwhile.
            self.drop_all();
        }
    }

    fn not_made(&mut self, now: Instant) {
        (self.is_making, self.not_before) = (false, Some(now + LONG_PAUSE));
    }
}

impl Engine {
    /// Connects to that port at 127.0.0.1 inside, else at `::1`.
    pub(crate) async fn direct(&self, sandbox: &Arc<Sandbox>, number: u16) -> Tried {
        let v4 = self.direct_by(sandbox, 0, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), number));
        match v4.await {
            Tried::Refused if sandbox.direct.lock().is_v4_only => Tried::Refused,
            Tried::Refused => {
                let there = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), number);
                self.direct_by(sandbox, 1, there).await
            }
            other => other,
        }
    }

    async fn direct_by(&self, sandbox: &Arc<Sandbox>, family: usize, to: SocketAddr) -> Tried {
        let now = Instant::now();
        let (socket, makes) = {
            let mut kept = sandbox.direct.lock();
            kept.wanted = Some(now);
            let socket = kept.sockets[family].pop();
            (socket, kept.begin_making(now))
        };
        if makes {
            self.make_direct(sandbox);
        }
        let Some(socket) = socket else { return Tried::NoWay };
        match timeout(CONNECT, connect(socket, to)).await {
            Ok(Connected::Yes(stream)) => Tried::Connected(stream),
            Ok(Connected::No(unused)) => {
                // As good as new: pages that are asked for until something listens take no more.
                let mut kept = sandbox.direct.lock();
                if kept.places.is_some() && kept.sockets[family].len() < MOST[family] {
                    kept.sockets[family].extend(unused);
                }
                Tried::Refused
            }
            Err(_elapsed) => Tried::Refused,
        }
    }

    /// Has sockets made in the background.
    fn make_direct(&self, sandbox: &Arc<Sandbox>) {
        let (engine, sandbox) = (self.clone(), Arc::clone(sandbox));
        self.inner.tasks.spawn(async move {
            let made = engine.new_sockets(&sandbox).await;
            let now = Instant::now();
            let mut kept = sandbox.direct.lock();
            match made {
                Ok(Some((made, places))) => kept.made(now, made, places),
                Ok(None) => kept.is_closed = true,
                Err(why) => {
                    tracing::debug!(id = %sandbox.id, why, "no direct way to its ports");
                    kept.not_made(now);
                }
            }
            if kept.places.is_some() && !std::mem::replace(&mut kept.is_watched, true) {
                tokio::spawn(close_idle(Arc::downgrade(&sandbox)));
            }
        });
    }

    async fn new_sockets(
        &self,
        sandbox: &Sandbox,
    ) -> Result<Option<(PortSockets, Option<Places>)>, String> {
        let machine = sandbox.machine().ok_or("it has no machine")?;
        let has_places = sandbox.direct.lock().places.is_some();
        let places = match has_places {
            true => None,
            false => {
                let count = MOST.iter().sum::<usize>();
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                let taken =
                    self.inner.directs.places.take(sandbox.account, count, Duration::ZERO).await;
                Some(taken.ok_or("as many sockets as may be are kept for others")?)
            }
        };
        let making = async {
            let _turn = self.inner.directs.turns.acquire().await;
            machine.port_sockets().await
        };
        match timeout(MAKE, making).await {
            Ok(Ok(made)) => Ok(made.map(|made| (made, places))),
            Ok(Err(error)) => Err(error.internal),
            Err(_elapsed) => Err("the driver does not answer".to_owned()),
        }
    }
}

/// Closes what nobody wants, for as long as there is something.
async fn close_idle(sandbox: Weak<Sandbox>) {
    loop {
        sleep(IDLE / 2).await;
        let Some(sandbox) = sandbox.upgrade() else { return };
        let mut kept = sandbox.direct.lock();
        if kept.wanted.is_none_or(|wanted| wanted.elapsed() >= IDLE) {
            kept.drop_all();
        }
        if kept.places.is_none() {
            kept.is_watched = false;
            return;
        }
    }
}

enum Connected {
    Yes(TcpStream),
    /// The socket, if it can be used again.
    No(Option<OwnedFd>),
}

async fn connect(socket: OwnedFd, to: SocketAddr) -> Connected {
    use rustix::io::Errno;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(_) => return Connected::No(None),
    }
    let Ok(stream) = TcpStream::from_std(socket.into()) else { return Connected::No(None) };
    let is_open = stream.writable().await.is_ok() && matches!(stream.take_error(), Ok(None));
    match (is_open, stream.local_addr(), stream.peer_addr()) {
        // A port of which outgoing connections are made may be connected to itself.
        (true, Ok(own), Ok(other)) if own != other => Connected::Yes(stream),
        (true, ..) => Connected::No(None),
        (false, ..) => {
            let socket: Option<OwnedFd> = stream.into_std().ok().map(Into::into);
            let is_fresh = |socket: &OwnedFd| rustix::net::connect_unspec(socket).is_ok();
            Connected::No(socket.filter(is_fresh))
        }
    }
}
