//! Sandboxes whose processes stand still.

use holm_runtime::{Driver as _, DriverErrorKind, Lifetime, Machine, doctor};

use crate::harness::Test;
use crate::leftovers;
use crate::outlive::{COUNTING, Seen, count, detached, is_alive, kill, options_of, parent, ping};
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("frozen_stands_still_and_goes_on", stands_still_and_goes_on),
    ("frozen_is_destroyed", is_destroyed),
    ("frozen_outlives_its_launcher", outlives_its_launcher),
    ("frozen_is_swept", is_swept),
    ("frozen_needs_a_freezer", needs_a_freezer),
];

fn freeze(rig: &Rig, machine: &dyn Machine) {
    rig.runtime.block_on(machine.freeze()).expect("freeze");
}

fn thaw(rig: &Rig, machine: &dyn Machine) {
    rig.runtime.block_on(machine.thaw()).expect("thaw");
}

/// That nothing in it uses the processor while another sandbox lives a whole life.
fn assert_still(rig: &Rig, machine: &dyn Machine) {
    let before = machine.usage().cpu_usec.unwrap();
    let other = rig.create(spec()).unwrap();
    ping(&*other);
    rig.destroy(&*other);
    assert_eq!(machine.usage().cpu_usec.unwrap(), before, "something in it runs");
}

/// Uses the processor all the time.
const BUSY: &str = "while :; do :; done >/dev/null 2>&1 &";

fn stands_still_and_goes_on() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    sh(&*machine, "sandbox", BUSY);
    sh(&*machine, "sandbox", COUNTING);
    for _ in 0..3 {
        freeze(&rig, &*machine);
        freeze(&rig, &*machine);
        assert_still(&rig, &*machine);
        assert!(machine.usage().memory_bytes.is_some_and(|bytes| bytes > 0), "it is kept");
        thaw(&rig, &*machine);
        thaw(&rig, &*machine);
        let before = count(&*machine);
        leftovers::wait_until("it stands still", || count(&*machine) > before);
    }
    let instance = rig.driver.instance();
    rig.destroy(&*machine);
    rig.close();
    leftovers::wait_for_none(&instance, &[]);
}

/// By whoever ends it: its owner, the driver's shutdown, or the launcher for an owner that is gone.
fn is_destroyed() {
    for lifetime in [Lifetime::Launcher, Lifetime::Owner, Lifetime::Detached] {
        let mut seen = Seen::default();
        let rig = Rig::new(options_of(lifetime));
        let machines: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
        seen.note();
        for machine in &machines {
            sh(&**machine, "sandbox", BUSY);
            freeze(&rig, &**machine);
        }
        let pids: Vec<_> = machines.iter().map(|machine| machine.init_pid()).collect();
        rig.destroy(&*machines[0]);
        assert!(!is_alive(pids[0]));
        let mut machines = machines.into_iter();
        machines.next();
        if !rig.driver.outlived() {
            // Nobody can reach it any more.
            drop(machines.next());
            leftovers::wait_until("nobody's sandbox lives on", || !is_alive(pids[1]));
        }
        rig.close();
        assert!(!pids.into_iter().any(is_alive));
        seen.assert_none();
    }
}

/// Also where the next owner finds it.
fn outlives_its_launcher() {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let machine = rig.create(spec()).unwrap();
    sh(&*machine, "sandbox", BUSY);
    freeze(&rig, &*machine);
    seen.note();
    kill(rig.driver.launcher_pid());
    assert_still(&rig, &*machine);
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    drop((machine, rig));

    let rig = Rig::new(detached());
    seen.note();
    let id = rig.driver.left_over().pop().unwrap();
    let machine = rig.driver.adopt(&id).unwrap();
    assert_still(&rig, &*machine);
    thaw(&rig, &*machine);
    ping(&*machine);
    freeze(&rig, &*machine);
    kill(rig.driver.launcher_pid());
    rig.destroy(&*machine);
    assert!(!is_alive(machine.init_pid()));
    rig.close();
    seen.assert_none();
}

/// Everybody who could have ended it is dead: the next start does.
fn is_swept() {
    let rig = Rig::new(options_of(Lifetime::Owner));
    let mut seen = Seen::default();
    seen.note();
    let machine = rig.create(spec()).unwrap();
    sh(&*machine, "sandbox", BUSY);
    freeze(&rig, &*machine);
    let (launcher, pid) = (rig.driver.launcher_pid(), machine.init_pid());
    let keeper = parent(launcher);
    kill(keeper);
    kill(launcher);
    leftovers::wait_until("they live", || !is_alive(keeper) && !is_alive(launcher));
    rig.runtime.block_on(rig.driver.ended());
    drop((machine, rig));
    Rig::new(options_of(Lifetime::Owner)).close();
    assert!(!is_alive(pid));
    seen.assert_none();
}

fn needs_a_freezer() {
    assert!(doctor::report(&options()).pause.possible);
    let mut poor = options();
    poor.without_cgroups = true;
    let found = doctor::report(&poor).pause;
    assert!(!found.possible && found.mend.is_some(), "{found:?}");
    let rig = Rig::new(poor);
    let machine = rig.create(spec()).unwrap();
    let error = rig.runtime.block_on(machine.freeze()).unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::Unsupported, "{error:?}");
    thaw(&rig, &*machine);
    ping(&*machine);
    rig.close();
}
