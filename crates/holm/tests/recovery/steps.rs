//! An engine with prices over SQLite, in a process of its own that is killed at every step of a
//! create, of a pause and its end, and of a destroy, alone or with its launcher; then the next engine. The lists of steps
//! make the points, so a new step is among them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::Arc;

use holm_engine::{
    CreateSandbox, EndReason, Engine, EngineSettings, ErrorKind, Faults, LifetimeRules,
    ListSandboxes, Moment, Prices, RunCommand, SandboxId, SandboxState, Store, create_steps,
    end_steps, pause_steps,
};
use holm_runtime::{
    Driver as _, Fault, FaultMode, Lifetime, LinuxDriver, LinuxOptions, Step, When,
};
use holm_store::SqliteStore;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::common::*;
use crate::ledger;

as_root!(
    killed_at_every_step,
    case_56_a_service_that_stood_still_ends_what_expired_before_anybody_uses_it
);

/// Micro-units of a second.
const PRICE: i64 = 10;
/// And of one that is paused.
const PAUSED: i64 = 3;

/// Where and how the process is killed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Point {
    /// Nowhere: it does a step for every line that it reads.
    Never,
    /// In the driver.
    Driver(Fault),
    /// In the engine: number of the step, whether before it, whether with the launcher.
    Engine(usize, bool, bool),
}

struct Service {
    /// An event loop that turns also while the test does something else.
    runtime: tokio::runtime::Handle,
    /// Dropped, it ends.
    _turn: oneshot::Sender<()>,
    engine: Engine,
    store: Arc<dyn Store>,
    driver: Arc<LinuxDriver>,
}

fn event_loop() -> (tokio::runtime::Handle, oneshot::Sender<()>) {
    let (turn, ended) = oneshot::channel::<()>();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("an event loop");
        send.send(runtime.handle().clone()).expect("it is waited for");
        // The end is the sender's.
        let _ = runtime.block_on(ended);
        runtime.shutdown_background();
    });
    (receive.recv().expect("an event loop"), turn)
}

fn engine_steps() -> Vec<&'static str> {
    [create_steps(), pause_steps(), end_steps()].concat()
}

impl Service {
    fn start(data: &std::path::Path, program: &std::path::Path, point: Point) -> Self {
        let mut options = LinuxOptions::new(program);
        options.data_dir = Some(data.join("data"));
        options.runtime_dir = Some(data.join("run"));
        options.lifetime = Lifetime::Detached;
        options.blanks = 0;
        let mut settings = EngineSettings {
            lifetime: LifetimeRules::EMBEDDED,
            prices: Prices { small: PRICE, medium: PRICE, large: PRICE },
            paused_prices: Prices { small: PAUSED, medium: PAUSED, large: PAUSED },
            meter_interval: std::time::Duration::from_millis(50),
            ..EngineSettings::service()
        };
        if let Point::Driver(fault) = point {
            options.fault = Some(fault);
            options.blank = settings.shape(None).expect("a shape");
            // Only a sandbox that was a blank is named later.
            options.blanks = usize::from(fault.step == Step::Name);
        }
        let driver = Arc::new(LinuxDriver::start(options).expect("the driver starts"));
        if let Point::Engine(step, before, both) = point {
            let step = engine_steps()[step];
            let when = if before { Moment::Before } else { Moment::After };
            let launcher = driver.launcher_pid();
            settings.faults = Faults::when(move |name, moment| {
                if name == step && moment == when {
                    if both {
                        crate::kill(launcher);
                    }
                    crate::kill(std::process::id());
                }
                false
            });
        }
        let (runtime, turn) = event_loop();
        let (engine, store) = runtime.block_on(async {
            let store = SqliteStore::open(data.join("data/engine.db")).await.expect("a store");
            let store: Arc<dyn Store> = Arc::new(store);
            let engine = Engine::with_store(Arc::clone(&driver) as _, settings, Arc::clone(&store));
            engine.start().await.expect("the engine starts");
            (engine, store)
        });
        Self { runtime, _turn: turn, engine, store, driver }
    }

    fn create(&self, seconds: u64) -> SandboxId {
        let timeout = Some(std::time::Duration::from_secs(seconds));
        let request = CreateSandbox { timeout, ..CreateSandbox::default() };
        self.runtime.block_on(self.engine.sandbox_create(request)).expect("a sandbox").id
    }

    fn answers(&self, id: &SandboxId) -> Result<(), holm_engine::Error> {
        let run =
            self.runtime.block_on(self.engine.exec_run(id, RunCommand::shell("echo $((6*7))")))?;
        assert_eq!(run.stdout.text, "42\n");
        Ok(())
    }

    fn list(&self) -> Vec<(SandboxId, SandboxState)> {
        let listed = self.runtime.block_on(self.engine.sandbox_list(ListSandboxes::default()));
        listed.expect("a list").iter().map(|view| (view.id, view.state)).collect()
    }

    fn pause(&self, id: &SandboxId) {
        let paused = self.runtime.block_on(self.engine.sandbox_pause(id)).expect("paused");
        assert_eq!(paused.state, SandboxState::Paused);
    }

    fn resume(&self, id: &SandboxId) {
        self.runtime.block_on(self.engine.sandbox_resume(id)).expect("resumed");
    }

    fn destroy(&self, id: &SandboxId) {
        self.runtime.block_on(self.engine.sandbox_destroy(id)).expect("destroyed");
    }

    /// Records on the host: what the next launcher would find.
    fn kept(&self, home: &Home) -> usize {
        let all = std::fs::read_dir(home.data().join("instances")).expect("instances").flatten();
        let kept = all.filter_map(|dir| std::fs::read_dir(dir.path().join("sandboxes")).ok());
        kept.flatten().count()
    }

    fn leave(self) {
        self.runtime.block_on(async {
            self.engine.leave().await;
            self.store.close().await;
        });
    }

    fn check_ledger(&self) {
        self.runtime.block_on(async {
            let usage = self.engine.usage().await.expect("usage");
            assert_eq!(usage.sandboxes_running, 0);
            ledger::check(&*self.store).await;
        });
    }
}

/// What the child process is told.
const TOLD: &str = "HOLM_RECOVERY_CHILD";

/// Not a test of its own: the process that is killed. Without its order there is nothing to do.
#[test]
fn child() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let (data, program, mut point): (std::path::PathBuf, std::path::PathBuf, Point) =
        serde_json::from_str(&told).expect("an order");
    if let Point::Driver(fault) = &mut point {
        let own = i32::try_from(std::process::id()).expect("a process id");
        fault.mode = match fault.mode {
            FaultMode::KillOwner(_) => FaultMode::KillOwner(own),
            FaultMode::KillBoth(_) => FaultMode::KillBoth(own),
            other => other,
        };
    }
    let say = |text: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nsays {text}").and_then(|()| out.flush()).expect("a parent");
    };
    let hear = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a parent");
        line.trim().to_owned()
    };
    let service = Service::start(&data, &program, point);
    if matches!(point, Point::Never) {
        let id = service.create(2);
        say(id.to_string());
        hear();
        say(format!("{:?}", service.answers(&id).map_err(|error| error.ended.map(|e| e.reason))));
        hear();
        service.leave();
        std::process::exit(0);
    }
    let again = matches!(point, Point::Driver(fault) if fault.step == Step::Name);
    for _ in 0..if again { 50 } else { 1 } {
        let id = service.create(3600);
        service.answers(&id).expect("it answers");
        service.pause(&id);
        service.resume(&id);
        service.destroy(&id);
    }
    say("went through".to_owned());
    service.leave();
    std::process::exit(0);
}

struct Other {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(home: &Home, point: Point) -> Self {
        let order = serde_json::to_string(&(&home.dir, &home.program, point)).expect("an order");
        let mut command = home.command_of(&std::env::current_exe().expect("this program"));
        let mut child = command
            .args(["--exact", "steps::child", "--nocapture"])
            .env(TOLD, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Option<String> {
        let mut words = self.lines.by_ref().map_while(Result::ok);
        words.find_map(|line| line.strip_prefix("says ").map(str::to_owned))
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().expect("piped").write_all(b"go\n").expect("it listens");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
        rustix::process::kill_process(pid, signal).expect("it is our child");
    }
}

fn driver_points() -> Vec<Point> {
    let whens = [When::Before, When::After, When::BeforeUndo, When::AfterUndo];
    let modes = [FaultMode::KillBoth(0), FaultMode::KillOwner(0)];
    let mut points = Vec::new();
    for step in Step::ALL {
        for when in whens {
            // Nothing of ours runs after the guest has taken over.
            if (step, when) != (Step::Exec, When::After) {
                points.extend(modes.map(|mode| Point::Driver(Fault { step, when, mode })));
            }
        }
    }
    points
}

fn engine_points() -> Vec<Point> {
    let steps = 0..engine_steps().len();
    let forms = [(true, true), (true, false), (false, true), (false, false)];
    steps.flat_map(|step| forms.map(|(before, both)| Point::Engine(step, before, both))).collect()
}

/// All points of the engine; of the driver, whose own suite has them all, every fourth in the short
/// form, from a random one on.
fn killed_at_every_step(home: &Home) {
    let mut moments = crate::Moments::new();
    let skip = usize::try_from(moments.below(4)).expect("small");
    let stride = if long() { 1 } else { 4 };
    let skip = if long() { 0 } else { skip };
    let driver = driver_points().into_iter().skip(skip).step_by(stride);
    killed_at(home, engine_points().into_iter().chain(driver));
}

/// What a sandbox is found as whose process was killed while it was paused, or went on.
fn after_pause(point: Point) -> Option<SandboxState> {
    let Point::Engine(step, before, _) = point else { return None };
    match (engine_steps()[step], before) {
        ("freeze", _) | ("record_pause", true) => Some(SandboxState::Running),
        ("record_pause", false) | ("record_resume", true) => Some(SandboxState::Paused),
        ("record_resume", false) | ("thaw", _) => Some(SandboxState::Running),
        _ => None,
    }
}

fn killed_at(home: &Home, points: impl Iterator<Item = Point>) {
    let service = Service::start(&home.dir, &home.program, Point::Never);
    let account = service.engine.caller().account;
    let topup = service.engine.account_topup(account, 1_000_000_000, None);
    service.runtime.block_on(topup).expect("money");
    let oldest = service.create(3600);
    service.pause(&oldest);
    home.note_instances();
    service.leave();
    for point in points {
        let mut other = Other::start(home, point);
        let went = other.next();
        let status = other.child.wait().expect("it is our child");
        assert_eq!((went, status.code()), (None, None), "{point:?}");
        let service = Service::start(&home.dir, &home.program, Point::Never);
        home.note_instances();
        // Each one is usable or on its way out.
        let listed = service.list();
        assert!(
            listed.len() <= 2 && listed.contains(&(oldest, SandboxState::Paused)),
            "{listed:?}"
        );
        let other = listed.iter().find(|(id, _)| *id != oldest);
        if let Some(want) = after_pause(point) {
            assert_eq!(other.map(|(_, state)| *state), Some(want), "{point:?}");
        }
        for (id, state) in listed {
            // Only what is recorded as paused stands still, and use lets it go on.
            if state.is_live() {
                service.answers(&id).expect("it is usable");
                // Ended while it is paused as well.
                service.pause(&id);
            }
            if id != oldest && state.is_live() {
                service.destroy(&id);
            }
        }
        until(&format!("{point:?}: only the oldest"), || (service.list().len() == 1).then_some(()));
        until(&format!("{point:?}: only its record"), || (service.kept(home) == 1).then_some(()));
        assert!(service.driver.left_over().is_empty());
        service.leave();
    }
    let service = Service::start(&home.dir, &home.program, Point::Never);
    home.note_instances();
    service.answers(&oldest).expect("it lived through all of it");
    service.destroy(&oldest);
    service.check_ledger();
    service.leave();
}

fn case_56_a_service_that_stood_still_ends_what_expired_before_anybody_uses_it(home: &Home) {
    let service = Service::start(&home.dir, &home.program, Point::Never);
    let account = service.engine.caller().account;
    let topup = service.engine.account_topup(account, 1_000_000_000, None);
    service.runtime.block_on(topup).expect("money");
    service.leave();
    for killed in [false, true] {
        let mut other = Other::start(home, Point::Never);
        let id: SandboxId = other.next().expect("a sandbox").parse().expect("an id");
        home.note_instances();
        other.signal(if killed { Signal::KILL } else { Signal::STOP });
        // Its lease of two seconds ends while nothing enforces it.
        let began = std::time::Instant::now();
        until("the lease to end", || (began.elapsed().as_secs() >= 3).then_some(()));
        let service = if killed {
            other.child.wait().expect("it is our child");
            let service = Service::start(&home.dir, &home.program, Point::Never);
            let error = service.answers(&id).expect_err("it has expired");
            assert_eq!(error.kind, ErrorKind::SandboxGone);
            service
        } else {
            other.signal(Signal::CONT);
            other.tell();
            assert_eq!(other.next().as_deref(), Some("Err(Some(Expired))"));
            other.tell();
            assert_eq!(other.child.wait().expect("it is our child").code(), Some(0));
            Service::start(&home.dir, &home.program, Point::Never)
        };
        home.note_instances();
        let view = service.runtime.block_on(service.engine.sandbox_get(&id)).expect("remembered");
        let ended = view.ended.expect("it has ended");
        assert_eq!((ended.reason, Some(ended.at)), (EndReason::Expired, view.expires_at));
        until("nothing of it", || (service.kept(home) == 0).then_some(()));
        until("nothing listed", || service.list().is_empty().then_some(()));
        service.check_ledger();
        service.leave();
    }
}
