//! Sandboxes that outlive the launcher, but not the process that made them.

use holm_runtime::{
    Driver as _, DriverErrorKind, ExitReason, Fault, FaultMode, Lifetime, LinuxOptions, Step, When,
};

use crate::harness::Test;
use crate::leftovers;
use crate::outlive::{
    COUNTING, Owner, Seen, count, is_alive, kill, moments, options_of, parent, ping,
};
use crate::rig::{Rig, ask, base, sh, spec};

pub const TESTS: &[Test] = &[
    ("owned_goes_on_without_its_launcher", goes_on_without_its_launcher),
    ("owned_launcher_killed_while_busy", launcher_killed_while_busy),
    ("owned_launcher_killed_at_every_step", launcher_killed_at_every_step),
    ("owned_ends_with_its_owner", ends_with_its_owner),
    ("owned_owner_killed_at_every_step", owner_killed_at_every_step),
    ("owned_both_killed_at_every_step", both_killed_at_every_step),
    ("owned_all_killed_and_swept", all_killed_and_swept),
    ("owned_keeper_killed", keeper_killed),
    ("owned_helpers_killed", helpers_killed),
    ("owned_group_that_nobody_knows", group_that_nobody_knows),
];

fn owned() -> LinuxOptions {
    options_of(Lifetime::Owner)
}

fn goes_on_without_its_launcher() {
    let mut options = owned();
    options.blanks = 2;
    let rig = Rig::new(options);
    assert!(!rig.driver.outlived());
    let mut seen = Seen::default();
    seen.note();
    let machines: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
    sh(&*machines[0], "sandbox", COUNTING);
    let instance = rig.driver.instance();
    for _ in 0..3 {
        let (launcher, before) = (rig.driver.launcher_pid(), count(&*machines[0]));
        kill(launcher);
        // A new one answers, under the same name, and its names are new.
        let more = rig.create(spec()).unwrap();
        ping(&*more);
        assert_ne!(rig.driver.launcher_pid(), launcher);
        assert_eq!(rig.driver.instance(), instance);
        assert!(machines.iter().all(|machine| machine.guest_socket() != more.guest_socket()));
        assert!(rig.driver.left_over().is_empty(), "they have their owner");
        leftovers::wait_until("it stands still", || count(&*machines[0]) > before);
        assert!(machines[0].usage().memory_bytes.is_some_and(|bytes| bytes > 0));
        rig.destroy(&*more);
    }
    // What ends while there is no launcher is told by the next one.
    kill(machines[1].init_pid());
    kill(rig.driver.launcher_pid());
    assert_eq!(rig.runtime.block_on(machines[1].exited()), ExitReason::Died);
    rig.destroy(&*machines[1]);
    // One that nobody has any more is ended all the same.
    let forgotten = machines[2].init_pid();
    kill(rig.driver.launcher_pid());
    drop(machines);
    leftovers::wait_until("nobody's sandbox lives on", || !is_alive(forgotten));
    rig.close();
    seen.assert_none();
}

/// Creates and destroys go on over the death of the launcher.
fn launcher_killed_while_busy() {
    let mut options = owned();
    options.blanks = 2;
    let rig = Rig::new(options);
    let mut seen = Seen::default();
    seen.note();
    for round in 0..12 {
        let launcher = rig.driver.launcher_pid();
        let ends = rig.create(spec()).unwrap();
        rig.runtime.block_on(async {
            let mut creates: Vec<_> = (0..6).map(|_| rig.driver.create(spec())).collect();
            let mut destroy = ends.destroy();
            std::future::poll_fn(|context| {
                creates.iter_mut().for_each(|create| drop(create.as_mut().poll(context)));
                drop(destroy.as_mut().poll(context));
                std::task::Poll::Ready(())
            })
            .await;
            tokio::time::sleep(std::time::Duration::from_millis(round * 2)).await;
            kill(launcher);
            destroy.await.unwrap();
            for create in creates {
                let machine = create.await.unwrap();
                ping(&*machine);
                machine.destroy().await.unwrap();
            }
        });
        assert!(!is_alive(ends.init_pid()));
    }
    rig.close();
    seen.assert_none();
}

/// Nobody notices.
fn launcher_killed_at_every_step() {
    for (step, when) in moments() {
        let mut options = owned();
        options.fault = Some(Fault { step, when, mode: FaultMode::KillLauncher });
        // Only a sandbox that was a blank is named later.
        options.blanks = usize::from(step == Step::Name);
        let rig = Rig::new(options);
        let mut seen = Seen::default();
        seen.note();
        let launcher = rig.driver.launcher_pid();
        for _ in 0..if step == Step::Name { 200 } else { 1 } {
            if step == Step::Name {
                leftovers::wait_for_blank(&base().join("service-run"));
            }
            let machine = rig.create(spec()).unwrap();
            ping(&*machine);
            rig.destroy(&*machine);
            if rig.driver.launcher_pid() != launcher {
                break;
            }
        }
        rig.close();
        // The last undo may be done when the answer is there already.
        let last = (step, when) == (Step::ALL[0], When::AfterUndo);
        assert!(last || !is_alive(launcher), "{step:?} {when:?}: the fault did not happen");
        seen.assert_none();
    }
}

/// Owner and launcher killed in either order, and the owner alone.
fn ends_with_its_owner() {
    for round in 0..3 {
        let mut owner = Owner::start(Lifetime::Owner, None);
        let launcher = owner.next().unwrap().parse().unwrap();
        let made = owner.next().unwrap();
        let socket = made.split_once(' ').unwrap().1;
        assert_eq!(ask(socket.as_ref(), "ping").unwrap(), "pong");
        let mut seen = Seen::default();
        seen.note();
        owner.kill_with(launcher, round);
        // By what is left of it: nothing else is started.
        seen.assert_none();
    }
}

fn owner_killed_at_every_step() {
    at_every_step(FaultMode::KillOwner(0));
}

fn both_killed_at_every_step() {
    at_every_step(FaultMode::KillBoth(0));
}

fn at_every_step(mode: FaultMode) {
    for (step, when) in moments() {
        let what = format!("{step:?} {when:?} {mode:?}");
        let mut owner = Owner::start(Lifetime::Owner, Some(Fault { step, when, mode }));
        let mut seen = Seen::default();
        let mut words = Vec::new();
        while let Some(word) = owner.next() {
            seen.note();
            words.push(word);
        }
        assert_eq!(owner.child.wait().unwrap().code(), None, "{what}: {words:?}");
        seen.assert_none();
    }
}

/// Nobody is left who could end it. The next start does, and gives its ids to nobody before.
fn all_killed_and_swept() {
    let mut owner = Owner::start(Lifetime::Owner, None);
    let launcher: u32 = owner.next().unwrap().parse().unwrap();
    let made = owner.next().unwrap();
    let socket = made.split_once(' ').unwrap().1;
    let mut seen = Seen::default();
    seen.note();
    let keeper = parent(launcher);
    // The one that could start the next first.
    kill(keeper);
    kill(launcher);
    owner.kill();
    leftovers::wait_until("they live", || !is_alive(keeper) && !is_alive(launcher));
    assert_eq!(ask(socket.as_ref(), "ping").unwrap(), "pong", "it runs");
    let rig = Rig::new(owned());
    seen.note();
    rig.close();
    seen.assert_none();
    assert!(ask(socket.as_ref(), "ping").is_err());
}

/// Without a keeper everything works as long as the launcher does.
fn keeper_killed() {
    let rig = Rig::new(owned());
    let mut seen = Seen::default();
    seen.note();
    let machine = rig.create(spec()).unwrap();
    kill(parent(rig.driver.launcher_pid()));
    ping(&*machine);
    let more = rig.create(spec()).unwrap();
    ping(&*more);
    rig.destroy(&*machine);
    rig.close();
    seen.assert_none();
}

/// Without both nothing can be ended one by one, so that the owner ends everything.
fn helpers_killed() {
    for keeper_first in [true, false] {
        let rig = Rig::new(owned());
        let mut seen = Seen::default();
        seen.note();
        let machine = rig.create(spec()).unwrap();
        let launcher = rig.driver.launcher_pid();
        let mut both = [parent(launcher), launcher];
        if !keeper_first {
            both.reverse();
        }
        both.into_iter().for_each(kill);
        if keeper_first {
            rig.runtime.block_on(rig.driver.ended());
            let error = rig.create(spec()).err().unwrap();
            assert_eq!(error.kind, DriverErrorKind::LauncherGone);
            assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Died);
            assert!(!is_alive(machine.init_pid()));
            rig.destroy(&*machine);
        }
        rig.close();
        seen.assert_none();
    }
}

/// One that was made when nobody looked any more, as by a builder in its last call.
fn group_that_nobody_knows() {
    let rig = Rig::new(owned());
    let machine = rig.create(spec()).unwrap();
    let Some(group) = leftovers::group(&rig.driver.instance(), "cgroup.procs") else {
        println!("SKIP no groups: not limited in this mode");
        return rig.close();
    };
    std::fs::create_dir(group.with_file_name("sandbox-999")).unwrap();
    let parent = group.parent().unwrap().to_owned();
    rig.destroy(&*machine);
    rig.close();
    leftovers::wait_until("the groups stay", || !parent.exists());
}
