//! Steps that fail, and processes of ours that are killed in the middle: nothing may be left.

use holm_runtime::{Driver as _, Fault, FaultMode, LinuxDriver, SandboxSpec, Step, When};

use crate::harness::Test;
use crate::outlive::{is_alive, kill};
use crate::rig::{Rig, ask, base, options, spec};
use crate::{layers, leftovers};

pub const TESTS: &[Test] = &[
    ("trouble_every_step_fails", every_step_fails),
    ("trouble_worker_killed_at_every_step", worker_killed_at_every_step),
    ("trouble_launcher_killed_at_every_step", launcher_killed_at_every_step),
    ("trouble_every_step_fails_on_layers", every_step_fails_on_layers),
    ("trouble_worker_killed_at_every_step_on_layers", worker_killed_at_every_step_on_layers),
    ("trouble_launcher_killed_at_every_step_on_layers", launcher_killed_at_every_step_on_layers),
    ("trouble_init_dies_before_it_is_reported", init_dies_before_it_is_reported),
    ("trouble_owner_leaves_in_a_burst", owner_leaves_in_a_burst),
    ("trouble_launcher_killed_while_running", launcher_killed_while_running),
    ("trouble_owner_killed", owner_killed),
    ("trouble_both_killed_and_swept", both_killed_and_swept),
];

/// Every step, before and after its work. Nothing runs after the guest has taken over.
fn moments() -> impl Iterator<Item = (Step, When)> {
    let both = Step::ALL.into_iter().flat_map(|step| [(step, When::Before), (step, When::After)]);
    both.filter(|moment| *moment != (Step::Exec, When::After))
}

/// The error of a create. A create that is quicker than the blank gets one of its own.
fn first_error(
    rig: &Rig,
    tries: usize,
    spec: impl Fn() -> SandboxSpec,
) -> Option<holm_runtime::DriverError> {
    let one = |_| {
        if tries > 1 {
            leftovers::wait_for_blank(&base().join("run"));
        }
        rig.create(spec()).map(|machine| rig.destroy(&*machine))
    };
    (0..tries).map(one).find_map(Result::err)
}

/// A create with that fault must fail and leave nothing.
fn check(step: Step, when: When, mode: FaultMode) {
    check_of(step, when, mode, spec);
}

fn check_of(step: Step, when: When, mode: FaultMode, spec: impl Fn() -> SandboxSpec) {
    let mut options = options();
    options.fault = Some(Fault { step, when, mode });
    // Only a sandbox that was a blank is named later.
    options.blanks = usize::from(step == Step::Name);
    let rig = Rig::new(options);
    let instance = rig.driver.instance().to_owned();
    let launcher = rig.driver.launcher_pid();
    let Some(error) = first_error(&rig, if step == Step::Name { 200 } else { 1 }, spec) else {
        panic!("{step:?} {when:?} {mode:?}: the fault did not happen")
    };
    if mode == FaultMode::Error {
        let name = format!("{step:?}");
        assert!(error.internal.contains(&name), "{name}: {error:?}");
        // A new blank is nothing that is left.
        if step != Step::Name {
            leftovers::wait_for_none(&instance, &[launcher]);
        }
    }
    rig.close();
    if mode == FaultMode::Error {
        leftovers::assert_none(&instance, &[]);
    } else {
        // The kernel lets go of what a killed process held in its own time.
        leftovers::wait_for_none(&instance, &[]);
    }
}

fn every_step_fails() {
    moments().for_each(|(step, when)| check(step, when, FaultMode::Error));
}

fn worker_killed_at_every_step() {
    moments().for_each(|(step, when)| check(step, when, FaultMode::KillSelf));
}

fn launcher_killed_at_every_step() {
    moments().for_each(|(step, when)| check(step, when, FaultMode::KillLauncher));
}

/// The same where the root stands on layers of an image, which is never a blank's.
fn on_layers(mode: FaultMode) {
    let [low, middle, top] = layers::three_layers();
    for (step, when) in moments().filter(|(step, _)| *step != Step::Name) {
        check_of(step, when, mode, || layers::on(&[&low, &middle, &top]));
    }
}

fn every_step_fails_on_layers() {
    on_layers(FaultMode::Error);
}

fn worker_killed_at_every_step_on_layers() {
    on_layers(FaultMode::KillSelf);
}

fn launcher_killed_at_every_step_on_layers() {
    on_layers(FaultMode::KillLauncher);
}

/// PID 1 may be gone, and reaped, before its builder's report of it is read. Which comes first is
/// chance, so this is done often; a launcher that loses track of one never ends.
fn init_dies_before_it_is_reported() {
    let mut options = options();
    options.fault =
        Some(Fault { step: Step::Staging, when: When::Before, mode: FaultMode::KillSelf });
    let rig = Rig::new(options);
    for _ in 0..200 {
        assert!(rig.create(spec()).is_err());
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// The launcher ends although many sandboxes are half made when its owner goes.
fn owner_leaves_in_a_burst() {
    for wait in [0, 1, 3, 10, 30, 100] {
        let rig = Rig::new(options());
        let instance = rig.driver.instance().to_owned();
        rig.runtime.block_on(async {
            let driver = &rig.driver;
            let mut creates: Vec<_> = (0..60).map(|_| driver.create(spec())).collect();
            std::future::poll_fn(|context| {
                creates.iter_mut().for_each(|create| drop(create.as_mut().poll(context)));
                std::task::Poll::Ready(())
            })
            .await;
            tokio::time::sleep(std::time::Duration::from_millis(wait)).await;
            // Neither waited for nor given up one by one.
            creates.into_iter().for_each(std::mem::forget);
        });
        drop(rig);
        leftovers::wait_for_none(&instance, &[]);
    }
}

fn launcher_killed_while_running() {
    let mut options = options();
    options.blanks = 2;
    let rig = Rig::new(options);
    let instance = rig.driver.instance().to_owned();
    let machines: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
    kill(rig.driver.launcher_pid());
    for machine in &machines {
        rig.runtime.block_on(machine.exited());
        rig.destroy(&**machine);
    }
    leftovers::wait_for_none(&instance, &[]);
    let error = rig.create(spec()).err().unwrap();
    assert_eq!(error.kind, holm_runtime::DriverErrorKind::LauncherGone);
    rig.close();
}

/// What `owner_child` prints when its sandboxes run.
struct Owner {
    child: std::process::Child,
    launcher: u32,
    instance: String,
    sockets: Vec<std::path::PathBuf>,
}

fn start_owner() -> Owner {
    use std::io::BufRead as _;
    let mut child = std::process::Command::new("/proc/self/exe")
        .args(["owner-child", base().to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let launcher = next().parse().unwrap();
    let instance = next();
    let sockets = (0..2).map(|_| next().into()).collect();
    Owner { child, launcher, instance, sockets }
}

/// In the child: two sandboxes and a blank, then nothing until somebody kills it.
pub fn owner_child() -> ! {
    let mut options = options();
    options.blanks = 1;
    let rig = Rig::new(options);
    println!("{}\n{}", rig.driver.launcher_pid(), LinuxDriver::instance(&rig.driver));
    let machines: Vec<_> = (0..2).map(|_| rig.create(spec()).unwrap()).collect();
    machines.iter().for_each(|machine| println!("{}", machine.guest_socket().display()));
    loop {
        std::thread::park();
    }
}

fn owner_killed() {
    let mut owner = start_owner();
    for socket in &owner.sockets {
        assert_eq!(ask(socket, "ping").unwrap(), "pong");
    }
    kill(owner.child.id());
    owner.child.wait().unwrap();
    leftovers::wait_for_none(&owner.instance, &[]);
    owner.sockets.iter().for_each(|socket| assert!(!socket.exists()));
}

/// With owner and launcher killed at once the sandboxes die, and the next start removes the rest.
fn both_killed_and_swept() {
    let mut owner = start_owner();
    kill(owner.launcher);
    kill(owner.child.id());
    owner.child.wait().unwrap();
    // While it dies it is not dead, and not swept.
    leftovers::wait_until("the launcher lives", || !is_alive(owner.launcher));
    let rig = Rig::new(options());
    // The sweep goes on beside the launcher's own work.
    leftovers::wait_for_none(&owner.instance, &[rig.driver.launcher_pid()]);
    let left = base().join("data/instances").join(&owner.instance);
    let start = std::time::Instant::now();
    while left.exists() {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "{left:?} is still there");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    rig.close();
}
