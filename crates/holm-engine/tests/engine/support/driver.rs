//! The fake driver and its machines.

use std::collections::HashMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use holm_runtime::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, ExitReason, GateSockets, Layer,
    LayerState, Machine, Pausing, PortSockets, SandboxSpec, Usage,
};
use tokio::sync::watch;

use super::guest::{FakeGuest, Guest};

/// What a test sets and looks at.
#[derive(Default)]
pub struct FakeDriver {
    pub enforcement: Mutex<Option<&'static Enforcement>>,
    /// What new guests are like.
    pub guest: Mutex<Guest>,
    /// How long a create takes.
    pub delay: Mutex<Duration>,
    /// How long a destroy takes.
    pub destroy_delay: Mutex<Duration>,
    /// The next creates that fail.
    pub failing: Mutex<Option<DriverErrorKind>>,
    /// Destroys that fail before one works.
    pub stubborn: Arc<AtomicUsize>,
    pub counts: Arc<Counts>,
    pub machines: Mutex<Vec<Arc<Inner>>>,
    /// Sandboxes have a gate.
    pub gates: AtomicBool,
    /// What the host enforces is not known before it is asked for.
    pub unknown: AtomicBool,
    /// This host has no freezer.
    pub never_freezes: AtomicBool,
    /// Sandboxes go on without it.
    pub outlived: AtomicBool,
    /// What one before it has left.
    left: Mutex<HashMap<String, Arc<Inner>>>,
}

/// Machines now, at most, and real removals.
#[derive(Default)]
pub struct Counts {
    pub alive: AtomicUsize,
    pub most: AtomicUsize,
    pub created: AtomicUsize,
    pub removed: AtomicUsize,
}

pub struct Inner {
    pub spec: SandboxSpec,
    pub guest: FakeGuest,
    socket: PathBuf,
    exited: watch::Sender<Option<ExitReason>>,
    pub oom_kills: Arc<AtomicU64>,
    stubborn: Arc<AtomicUsize>,
    destroy_delay: Duration,
    gates: bool,
    /// Where the gate's sockets were that were given out, in order.
    pub gate_ports: Mutex<Vec<u16>>,
    /// The next times that there are none.
    pub gate_failures: AtomicUsize,
    /// Whether there are sockets for ports: of the network of this process.
    pub has_ports: AtomicBool,
    /// Whether something comes along with them that tells when it is closed, and is no such socket.
    pub are_watched: AtomicBool,
    /// The other ends of that, one for each time that there were some.
    pub port_ends: Mutex<Vec<UnixStream>>,
    /// How often they were asked for.
    pub ports_asked: AtomicUsize,
    /// Whether everything in it stands still.
    pub frozen: AtomicBool,
    /// The next freezes and thaws that fail.
    pub freeze_failures: AtomicUsize,
    removing: tokio::sync::Mutex<bool>,
    counts: Arc<Counts>,
}

struct FakeMachine(Arc<Inner>);

impl FakeDriver {
    /// One that finds what `before` has left, and is outlived too.
    pub fn after(before: &Self) -> Self {
        let driver = Self { outlived: true.into(), ..Self::default() };
        driver.gates.store(before.gates.load(Ordering::SeqCst), Ordering::SeqCst);
        for machine in before.machines.lock().unwrap().iter() {
            if machine.exited.borrow().is_none() {
                let (id, machine) = (machine.spec.id.clone(), Arc::clone(machine));
                driver.machines.lock().unwrap().push(Arc::clone(&machine));
                driver.left.lock().unwrap().insert(id, machine);
            }
        }
        driver
    }

    pub fn alive(&self) -> usize {
        self.counts.alive.load(Ordering::SeqCst)
    }

    pub fn created(&self) -> usize {
        self.counts.created.load(Ordering::SeqCst)
    }

    pub fn removed(&self) -> usize {
        self.counts.removed.load(Ordering::SeqCst)
    }

    /// The newest machine.
    pub fn last(&self) -> Arc<Inner> {
        Arc::clone(self.machines.lock().unwrap().last().expect("a machine"))
    }
}

impl Inner {
    /// Removed.
    pub fn is_gone(&self) -> bool {
        *self.exited.borrow() == Some(ExitReason::Destroyed)
    }

    /// Whether somebody serves its gate.
    pub fn gate_is_open(&self) -> bool {
        let last = self.gate_ports.lock().unwrap().last().copied();
        last.is_some_and(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
    }

    /// Sockets for ports that are still there.
    pub fn ports_open(&self) -> usize {
        let ends = self.port_ends.lock().unwrap();
        let is_open = |end: &&UnixStream| Read::read(&mut &**end, &mut [0]).is_err();
        ends.iter().filter(is_open).count()
    }

    fn freeze(&self, frozen: bool) -> Result<(), DriverError> {
        let fail = |left: usize| left.checked_sub(1);
        if self.freeze_failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fail).is_ok() {
            let (kind, internal) = (DriverErrorKind::InUse, "/secret/host/path".to_owned());
            return Err(DriverError { kind, message: "it does not stop".to_owned(), internal });
        }
        self.frozen.store(frozen, Ordering::SeqCst);
        Ok(())
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// PID 1 is gone.
    pub fn die(&self, reason: ExitReason) {
        self.guest.stop();
        self.exited.send_replace(Some(reason));
    }
}

impl Driver for FakeDriver {
    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>> {
        Box::pin(async move {
            let delay = *self.delay.lock().unwrap();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            if let Some(kind) = *self.failing.lock().unwrap() {
                let internal = "/secret/host/path".to_owned();
                return Err(DriverError { kind, message: "cannot make it".to_owned(), internal });
            }
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let number = NEXT.fetch_add(1, Ordering::SeqCst);
            let name = format!("holm-engine-{}-{number}.sock", std::process::id());
            let socket = std::env::temp_dir().join(name);
            let oom_kills = Arc::new(AtomicU64::new(0));
            let kind = self.guest.lock().unwrap().clone();
            let guest = FakeGuest::start(&socket, kind, Arc::clone(&oom_kills));
            self.counts.created.fetch_add(1, Ordering::SeqCst);
            let alive = self.counts.alive.fetch_add(1, Ordering::SeqCst) + 1;
            self.counts.most.fetch_max(alive, Ordering::SeqCst);
            let inner = Arc::new(Inner {
                spec,
                guest,
                socket,
                exited: watch::Sender::new(None),
                oom_kills,
                stubborn: Arc::clone(&self.stubborn),
                destroy_delay: *self.destroy_delay.lock().unwrap(),
                gates: self.gates.load(Ordering::SeqCst),
                gate_ports: Mutex::default(),
                gate_failures: AtomicUsize::new(0),
                has_ports: AtomicBool::new(false),
                are_watched: AtomicBool::new(false),
                port_ends: Mutex::default(),
                ports_asked: AtomicUsize::new(0),
                frozen: AtomicBool::new(false),
                freeze_failures: AtomicUsize::new(0),
                removing: tokio::sync::Mutex::default(),
                counts: Arc::clone(&self.counts),
            });
            self.machines.lock().unwrap().push(Arc::clone(&inner));
            Ok(Box::new(FakeMachine(inner)) as Box<dyn Machine>)
        })
    }

    fn known_enforcement(&self) -> Option<&Enforcement> {
        (!self.unknown.load(Ordering::SeqCst)).then(|| self.enforcement())
    }

    fn enforcement(&self) -> &Enforcement {
        static NONE: LazyLock<Enforcement> = LazyLock::new(Enforcement::default);
        static GATES: LazyLock<Enforcement> = LazyLock::new(|| {
            let layer = Layer::EgressGate;
            let by = String::new();
            let row = LayerState { layer, enforced: true, mandatory: false, by, mend: None };
            Enforcement { layers: vec![row], ..Enforcement::default() }
        });
        let usual = if self.gates.load(Ordering::SeqCst) { &GATES } else { &NONE };
        self.enforcement.lock().unwrap().unwrap_or(usual)
    }

    fn pausing(&self) -> Pausing {
        let possible = !self.never_freezes.load(Ordering::SeqCst);
        Pausing { possible, by: "fake".to_owned(), mend: None }
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn left_over(&self) -> Vec<String> {
        self.left.lock().unwrap().keys().cloned().collect()
    }

    fn adopt(&self, id: &str) -> Option<Box<dyn Machine>> {
        let found = self.left.lock().unwrap().remove(id)?;
        Some(Box::new(FakeMachine(found)))
    }

    fn outlived(&self) -> bool {
        self.outlived.load(Ordering::SeqCst)
    }
}

impl Machine for FakeMachine {
    fn guest_socket(&self) -> &Path {
        &self.0.socket
    }

    fn init_pid(&self) -> u32 {
        0
    }

    fn exited(&self) -> BoxFuture<'_, ExitReason> {
        Box::pin(async move {
            let mut seen = self.0.exited.subscribe();
            let reason = seen.wait_for(Option::is_some).await.map(|reason| *reason);
            reason.ok().flatten().unwrap_or(ExitReason::Died)
        })
    }

    fn usage(&self) -> Usage {
        Usage {
            memory_bytes: Some(1 << 20),
            cpu_usec: Some(1_500_000),
            processes: Some(1),
            oom_kills: self.oom_kills(),
        }
    }

    fn oom_kills(&self) -> Option<u64> {
        Some(self.0.oom_kills.load(Ordering::SeqCst))
    }

    fn gate_sockets(&self) -> BoxFuture<'_, Result<Option<GateSockets>, DriverError>> {
        Box::pin(async {
            let fail = |left: usize| left.checked_sub(1);
            if self.0.gate_failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fail).is_ok() {
                let (kind, internal) = (DriverErrorKind::InUse, "taken".to_owned());
                return Err(DriverError { kind, message: "in use".to_owned(), internal });
            }
            if !self.0.gates {
                return Ok(None);
            }
            let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
            let dns = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let port = tcp.local_addr().expect("a port").port();
            self.0.gate_ports.lock().unwrap().push(port);
            Ok(Some(GateSockets { tcp: vec![tcp.into()], dns: vec![dns.into()] }))
        })
    }

    fn port_sockets(&self) -> BoxFuture<'_, Result<Option<PortSockets>, DriverError>> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
        Box::pin(async {
            self.0.ports_asked.fetch_add(1, Ordering::SeqCst);
            if !self.0.has_ports.load(Ordering::SeqCst) {
                let (kind, internal) = (DriverErrorKind::Internal, "no ports".to_owned());
                return Err(DriverError { kind, message: "no ports".to_owned(), internal });
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let one = |family| socket_with(family, SocketType::STREAM, flags, None).expect("one");
            let mut v4: Vec<OwnedFd> = (0..9).map(|_| one(AddressFamily::INET)).collect();
            if self.0.are_watched.load(Ordering::SeqCst) {
                let (own, other) = UnixStream::pair().expect("two ends");
                other.set_nonblocking(true).expect("an end");
                self.0.port_ends.lock().unwrap().push(other);
                // The first is wanted last.
                v4.insert(0, own.into());
            }
            Ok(Some(PortSockets { v4, v6: (0..4).map(|_| one(AddressFamily::INET6)).collect() }))
        })
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async { self.0.freeze(true) })
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async { self.0.freeze(false) })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async move {
            let mut removed = self.0.removing.lock().await;
            if *removed {
                return Ok(());
            }
            if !self.0.destroy_delay.is_zero() {
                tokio::time::sleep(self.0.destroy_delay).await;
            }
            let count = |left: usize| left.checked_sub(1);
            if self.0.stubborn.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).is_ok() {
                let internal = "busy".to_owned();
                let kind = DriverErrorKind::Internal;
                return Err(DriverError { kind, message: "cannot remove".to_owned(), internal });
            }
            self.0.die(ExitReason::Destroyed);
            *removed = true;
            self.0.counts.alive.fetch_sub(1, Ordering::SeqCst);
            self.0.counts.removed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.guest.stop();
        let _ = std::fs::remove_file(&self.socket);
    }
}
