//! Sandboxes that outlive the process that made them, the launcher, or both.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use holm_runtime::{
    Driver as _, DriverErrorKind, Fault, FaultMode, Lifetime, LinuxDriver, LinuxOptions, Machine,
    Step, When,
};

use crate::harness::Test;
use crate::leftovers;
use crate::rig::{Rig, ask, base, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("outlive_owner_and_launcher", owner_and_launcher),
    ("outlive_launcher_killed_while_busy", launcher_killed_while_busy),
    ("outlive_launcher_killed_at_every_step", launcher_killed_at_every_step),
    ("outlive_owner_killed_at_every_step", owner_killed_at_every_step),
    ("outlive_both_killed_at_every_step", both_killed_at_every_step),
];

pub fn detached() -> LinuxOptions {
    options_of(Lifetime::Detached)
}

pub fn options_of(lifetime: Lifetime) -> LinuxOptions {
    let mut options = options();
    options.lifetime = lifetime;
    options.data_dir = Some(base().join("service"));
    options.runtime_dir = Some(base().join("service-run"));
    options
}

/// All instances that the service had, for the search of what is left.
#[derive(Default)]
pub struct Seen(BTreeSet<String>);

impl Seen {
    pub fn note(&mut self) {
        let list = std::fs::read_dir(base().join("service/instances")).into_iter().flatten();
        let dirs = list.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
        self.0.extend(dirs.map(|entry| entry.file_name().into_string().unwrap()));
    }

    /// Nothing at all is left.
    pub fn assert_none(&self) {
        leftovers::wait_until("directories of instances are left", || {
            let empty = |dir: PathBuf| {
                let list = std::fs::read_dir(dir).into_iter().flatten().flatten();
                list.filter(|entry| entry.file_name() != "lock").count() == 0
            };
            empty(base().join("service/instances")) && empty(base().join("service-run"))
        });
        for instance in &self.0 {
            leftovers::wait_for_none(instance, &[]);
        }
    }
}

/// An owner in a process of its own: makes a sandbox, uses it, destroys it, and says so.
pub struct Owner {
    pub child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Owner {
    pub fn start(lifetime: Lifetime, fault: Option<Fault>) -> Self {
        let mut child = Command::new("/proc/self/exe")
            .args(["outlive-child", base().to_str().unwrap()])
            .arg(serde_json::to_string(&(lifetime, fault)).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next word, or none when it is gone.
    pub fn next(&mut self) -> Option<String> {
        self.lines.next().and_then(Result::ok)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it alone in round 0, after its launcher in round 1, and before it in round 2.
    pub fn kill_with(&mut self, launcher: u32, round: usize) {
        if round == 1 {
            kill(launcher);
        }
        self.kill();
        if round == 2 {
            kill(launcher);
        }
    }
}

/// In the child. With a fault it goes on by itself; without one it does a step for every line.
pub fn child(order: &str) -> ! {
    let (lifetime, fault): (Lifetime, Option<Fault>) = serde_json::from_str(order).unwrap();
    let wait = || {
        if fault.is_none() && std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
            std::process::exit(0);
        }
    };
    let mut options = options_of(lifetime);
    // Number 0 stands for this process.
    options.fault = fault.map(|fault| {
        let own = i32::try_from(std::process::id()).unwrap();
        let mode = match fault.mode {
            FaultMode::KillOwner(_) => FaultMode::KillOwner(own),
            FaultMode::KillBoth(_) => FaultMode::KillBoth(own),
            other => other,
        };
        Fault { mode, ..fault }
    });
    options.blanks = usize::from(fault.is_none_or(|fault| fault.step == Step::Name));
    let rig = Rig::new(options);
    println!("{}", rig.driver.launcher_pid());
    let adopted: Vec<_> =
        rig.driver.left_over().iter().map(|id| rig.driver.adopt(id).unwrap()).collect();
    adopted.iter().for_each(|machine| ping(&**machine));
    // Only a sandbox that was a blank is named later.
    let named = fault.is_some_and(|fault| fault.step == Step::Name);
    for _ in 0..if named { 50 } else { 1 } {
        if named {
            leftovers::wait_for_blank_besides(&base().join("service-run"), adopted.len());
        }
        let spec = spec();
        let id = spec.id.clone();
        let machine = rig.create(spec).unwrap();
        ping(&*machine);
        println!("{id} {}", machine.guest_socket().display());
        wait();
        rig.destroy(&*machine);
    }
    println!("destroyed");
    wait();
    rig.runtime.block_on(rig.driver.leave());
    println!("left");
    std::process::exit(0)
}

pub fn ping(machine: &dyn Machine) {
    assert_eq!(ask(machine.guest_socket(), "ping").unwrap(), "pong");
}

pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[1].parse().unwrap()
}

pub const COUNTING: &str =
    "cd /workspace; (i=0; while :; do i=$((i+1)); echo $i > n; sleep 0.01; done) >/dev/null 2>&1 &";

pub fn count(machine: &dyn Machine) -> u64 {
    let text = sh(machine, "sandbox", "until [ -s /workspace/n ]; do :; done; cat /workspace/n");
    text.lines().next().and_then(|line| line.parse().ok()).unwrap_or(0)
}

/// Both killed in turns, and once together: the sandbox goes on, and is used by whoever is next.
fn owner_and_launcher() {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    assert!(rig.driver.outlived() && rig.driver.left_over().is_empty());
    let machine = rig.create(spec()).unwrap();
    sh(&*machine, "sandbox", COUNTING);
    seen.note();
    let (pid, socket) = (machine.init_pid(), machine.guest_socket().to_owned());
    assert_ne!(parent(pid), rig.driver.launcher_pid(), "PID 1 is not the launcher's child");
    let busy = LinuxDriver::start(detached()).err().unwrap();
    assert_eq!(busy.kind, DriverErrorKind::InUse);
    rig.runtime.block_on(rig.driver.leave());
    drop((machine, rig));
    assert!(is_alive(pid), "an orderly end leaves it");

    for round in 0..3 {
        let mut owner = Owner::start(Lifetime::Detached, None);
        let launcher = owner.next().unwrap().parse().unwrap();
        let made = owner.next().unwrap();
        seen.note();
        let theirs = made.split_once(' ').unwrap().1;
        owner.kill_with(launcher, round);
        leftovers::wait_until("the launcher does not end", || !is_alive(launcher));
        assert_eq!(ask(std::path::Path::new(theirs), "ping").unwrap(), "pong");
    }

    let rig = Rig::new(detached());
    assert_eq!(rig.driver.left_over().len(), 4, "one of ours, three of theirs");
    assert!(rig.driver.adopt("sbx_unknown").is_none());
    let all: Vec<_> =
        rig.driver.left_over().iter().map(|id| rig.driver.adopt(id).unwrap()).collect();
    assert!(rig.driver.left_over().is_empty(), "each is adopted once");
    let machine = all.iter().find(|machine| machine.init_pid() == pid).unwrap();
    assert_eq!(machine.guest_socket(), socket);
    let before = count(&**machine);
    leftovers::wait_until("what runs inside stands still", || count(&**machine) > before);
    assert!(machine.usage().memory_bytes.is_some_and(|bytes| bytes > 0));
    assert_eq!(machine.oom_kills(), Some(0));
    all.iter().for_each(|machine| rig.destroy(&**machine));
    assert!(all.iter().all(|machine| !is_alive(machine.init_pid())));
    rig.close();
    seen.assert_none();
}

/// Creates and destroys go on over the death of the launcher.
fn launcher_killed_while_busy() {
    let mut options = detached();
    options.blanks = 2;
    let mut seen = Seen::default();
    let rig = Rig::new(options);
    let stays = rig.create(spec()).unwrap();
    for round in 0..12 {
        let launcher = rig.driver.launcher_pid();
        rig.runtime.block_on(async {
            let mut creates: Vec<_> = (0..6).map(|_| rig.driver.create(spec())).collect();
            // On a busy machine one may be there at the first look.
            let mut done: Vec<_> = creates.iter().map(|_| None).collect();
            let mut destroy = stays.destroy();
            std::future::poll_fn(|context| {
                for (create, done) in creates.iter_mut().zip(&mut done) {
                    if let std::task::Poll::Ready(made) = create.as_mut().poll(context) {
                        *done = Some(made);
                    }
                }
                if round == 11 {
                    drop(destroy.as_mut().poll(context));
                }
                std::task::Poll::Ready(())
            })
            .await;
            tokio::time::sleep(std::time::Duration::from_millis(round * 2)).await;
            seen.note();
            kill(launcher);
            for (create, done) in creates.into_iter().zip(done) {
                let made = match done {
                    Some(made) => made,
                    None => create.await,
                };
                let machine = made.unwrap();
                ping(&*machine);
                machine.destroy().await.unwrap();
            }
        });
        assert_ne!(rig.driver.launcher_pid(), launcher);
        seen.note();
        if round < 11 {
            ping(&*stays);
        }
    }
    rig.destroy(&*stays);
    rig.close();
    seen.assert_none();
}

pub fn moments() -> impl Iterator<Item = (Step, When)> {
    let all = [When::Before, When::After, When::BeforeUndo, When::AfterUndo];
    let all = Step::ALL.into_iter().flat_map(move |step| all.map(|when| (step, when)));
    // Nothing of ours runs after the guest has taken over.
    all.filter(|moment| *moment != (Step::Exec, When::After))
}

fn launcher_killed_at_every_step() {
    at_every_step(FaultMode::KillLauncher);
}

fn owner_killed_at_every_step() {
    at_every_step(FaultMode::KillOwner(0));
}

fn both_killed_at_every_step() {
    at_every_step(FaultMode::KillBoth(0));
}

/// One sandbox lives through all of it.
fn at_every_step(mode: FaultMode) {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let oldest = spec();
    let pid = rig.create(oldest.clone()).unwrap().init_pid();
    rig.runtime.block_on(rig.driver.leave());
    drop(rig);
    for (step, when) in moments() {
        let what = format!("{step:?} {when:?} {mode:?}");
        let mut owner = Owner::start(Lifetime::Detached, Some(Fault { step, when, mode }));
        let mut words = Vec::new();
        while let Some(word) = owner.next() {
            seen.note();
            words.push(word);
        }
        let status = owner.child.wait().unwrap();
        seen.note();
        let killed = !matches!(mode, FaultMode::KillLauncher);
        assert_eq!(status.code(), (!killed).then_some(0), "{what}: {words:?}");
        let rig = Rig::new(detached());
        seen.note();
        let left = rig.driver.left_over();
        assert!(left.contains(&oldest.id) && left.len() <= 2, "{what}: {left:?}");
        assert!(killed || left.len() == 1, "{what}: {left:?}");
        for id in left {
            let machine = rig.driver.adopt(&id).unwrap();
            if id == oldest.id {
                assert_eq!(machine.init_pid(), pid, "{what}");
                ping(&*machine);
            } else {
                rig.destroy(&*machine);
            }
        }
        // Everything else is going: all but one record.
        leftovers::wait_until(&what, || {
            let all = std::fs::read_dir(base().join("service/instances")).unwrap().flatten();
            let kept = all.filter_map(|dir| std::fs::read_dir(dir.path().join("sandboxes")).ok());
            kept.flatten().count() == 1
        });
        rig.runtime.block_on(rig.driver.leave());
    }
    let rig = Rig::new(detached());
    let machine = rig.driver.adopt(&oldest.id).unwrap();
    ping(&*machine);
    rig.destroy(&*machine);
    rig.close();
    seen.assert_none();
}
