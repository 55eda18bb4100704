//! A driver that pretends, and the engine above it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holm_engine::{Engine, EngineSettings, KeyHasher};
use holm_runtime::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, ExitReason, GateSockets, Machine,
    SandboxSpec, Usage,
};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::guest::{Running, Shared};

/// Long enough for any machine, so that only a hang reaches it.
pub const HANG: Duration = Duration::from_secs(60);

/// What a test sees and steers.
pub struct World {
    directory: PathBuf,
    enforcement: Enforcement,
    /// Sandboxes that exist now.
    pub alive: watch::Sender<usize>,
    /// Sandboxes that were ever made.
    pub made: AtomicUsize,
    /// Commands that run now.
    pub running: Running,
    /// Lets `gate` commands go on.
    pub gate: watch::Sender<bool>,
    /// Lets creations go on.
    pub may_create: watch::Sender<bool>,
    /// Creations that wait.
    pub creating: watch::Sender<usize>,
    /// Makes creations fail.
    pub broken: watch::Sender<bool>,
}

struct FakeDriver(Arc<World>);

struct FakeMachine {
    world: Arc<World>,
    socket: PathBuf,
    server: AbortHandle,
    over: watch::Sender<bool>,
}

impl World {
    /// Another engine in this world.
    pub fn engine(self: &Arc<Self>, change: impl FnOnce(&mut EngineSettings)) -> Engine {
        let keys = Some(KeyHasher::new(&[7; 32]));
        let mut settings = EngineSettings { keys, ..EngineSettings::default() };
        change(&mut settings);
        Engine::new(Arc::new(FakeDriver(Arc::clone(self))), settings)
    }

    /// A new world and an engine in it.
    pub fn new() -> (Arc<Self>, Engine) {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("holm-gw-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for sockets");
        let world = Arc::new(Self {
            directory,
            enforcement: Enforcement { mode: "pretended".to_owned(), ..Enforcement::default() },
            alive: watch::Sender::new(0),
            made: AtomicUsize::new(0),
            running: watch::Sender::new(0),
            gate: watch::Sender::new(false),
            may_create: watch::Sender::new(true),
            creating: watch::Sender::new(0),
            broken: watch::Sender::new(false),
        });
        let engine = world.engine(|_| {});
        (world, engine)
    }
}

/// Waits until a counter has a value.
pub async fn reaches(counter: &watch::Sender<usize>, value: usize) {
    let mut seen = counter.subscribe();
    let waited = tokio::time::timeout(HANG, seen.wait_for(|count| *count == value)).await;
    assert!(waited.is_ok(), "the counter stays at {} instead of {value}", *counter.borrow());
}

impl Drop for World {
    fn drop(&mut self) {
        // What is left in the temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Driver for FakeDriver {
    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>> {
        Box::pin(async move {
            let world = &self.0;
            world.creating.send_modify(|count| *count += 1);
            let mut allowed = world.may_create.subscribe();
            let waiting = WaitingCreate(world);
            // An error means that the test is over.
            let _ = allowed.wait_for(|allowed| *allowed).await;
            drop(waiting);
            if *world.broken.borrow() {
                return Err(DriverError {
                    kind: DriverErrorKind::HostExhausted,
                    message: "the host has no room".to_owned(),
                    internal: "pretended".to_owned(),
                });
            }
            let socket = world.directory.join(&spec.id);
            let listener = UnixListener::bind(&socket).expect("a socket");
            let server = tokio::spawn(serve(Arc::clone(world), listener)).abort_handle();
            world.alive.send_modify(|count| *count += 1);
            world.made.fetch_add(1, Ordering::Relaxed);
            let over = watch::Sender::new(false);
            let machine = FakeMachine { world: Arc::clone(world), socket, server, over };
            Ok(Box::new(machine) as Box<dyn Machine>)
        })
    }

    fn enforcement(&self) -> &Enforcement {
        &self.0.enforcement
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Counts a creation for as long as it waits.
struct WaitingCreate<'a>(&'a World);

impl Drop for WaitingCreate<'_> {
    fn drop(&mut self) {
        self.0.creating.send_modify(|count| *count -= 1);
    }
}

async fn serve(world: Arc<World>, listener: UnixListener) {
    let guest = Shared::default();
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (guest, world) = (Arc::clone(&guest), Arc::clone(&world));
        connections.spawn(async move {
            let gate = world.gate.subscribe();
            guest.serve(stream, &world.running, gate).await;
        });
    }
}

impl Machine for FakeMachine {
    fn guest_socket(&self) -> &Path {
        &self.socket
    }

    fn init_pid(&self) -> u32 {
        1
    }

    fn exited(&self) -> BoxFuture<'_, ExitReason> {
        let mut over = self.over.subscribe();
        Box::pin(async move {
            // An error means that the machine was dropped, which ends it too.
            let _ = over.wait_for(|over| *over).await;
            ExitReason::Destroyed
        })
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn oom_kills(&self) -> Option<u64> {
        None
    }

    fn gate_sockets(&self) -> BoxFuture<'_, Result<Option<GateSockets>, DriverError>> {
        Box::pin(async { Ok(None) })
    }

    fn destroy(&self) -> BoxFuture<'_, Result<(), DriverError>> {
        Box::pin(async move {
            if !self.over.send_replace(true) {
                self.server.abort();
                self.world.alive.send_modify(|count| *count -= 1);
            }
            Ok(())
        })
    }
}
