//! A sandbox from its making to its end, one and many.

use holm_runtime::{Driver as _, DriverErrorKind, ExitReason, LinuxDriver, Machine, Root};

use crate::harness::Test;
use crate::leftovers;
use crate::rig::{Rig, ask, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("basics_create_ask_destroy", create_ask_destroy),
    ("basics_fifty_from_blanks", fifty_from_blanks),
    ("basics_eight_at_once", eight_at_once),
    ("basics_two_hundred_alive", two_hundred_alive),
    ("basics_dropped_create_leaves_nothing", dropped_create_leaves_nothing),
    ("basics_refused_creates_say_why", refused_creates_say_why),
    ("basics_exit_is_reported", exit_is_reported),
];

fn create_ask_destroy() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let text = sh(&*machine, "sandbox", "id -u; hostname; pwd; echo $((6*7)); ls /home");
    assert_eq!(text, "1000\nisland\n/\n42\nsandbox\nuser\nexit 0\n");
    let (pid, socket) = (machine.init_pid(), machine.guest_socket().to_owned());
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    rig.destroy(&*machine);
    rig.destroy(&*machine);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "PID 1 is gone");
    assert!(!socket.exists(), "the socket is gone");
    assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Destroyed);
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

fn ping(machine: &dyn Machine) {
    assert_eq!(ask(machine.guest_socket(), "ping").unwrap(), "pong");
}

fn fifty_from_blanks() {
    fifty(std::time::Duration::ZERO);
    fifty(std::time::Duration::from_millis(60));
}

fn fifty(pause: std::time::Duration) {
    let mut options = options();
    options.blanks = 2;
    let rig = Rig::new(options);
    // The first makes the template and the image.
    let machine = rig.create(spec()).unwrap();
    rig.destroy(&*machine);
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..50 {
        let start = std::time::Instant::now();
        let machine = rig.create(spec()).unwrap();
        times[0].push(start.elapsed());
        ping(&*machine);
        times[1].push(start.elapsed());
        rig.destroy(&*machine);
        times[2].push(start.elapsed());
        // A caller with work of its own in between finds a blank again.
        std::thread::sleep(pause);
    }
    for (name, list) in ["created", "answered", "destroyed"].iter().zip(&mut times) {
        list.sort();
        println!("  {name} after {:?} (median; p95 {:?})", list[25], list[47]);
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

async fn many(driver: &LinuxDriver, count: usize) -> Vec<Box<dyn Machine>> {
    let mut pending: Vec<_> = (0..count).map(|_| driver.create(spec())).collect();
    let mut machines = Vec::new();
    // All are on their way before the first is waited for.
    std::future::poll_fn(|context| {
        let mut left = Vec::new();
        for mut create in pending.drain(..) {
            match create.as_mut().poll(context) {
                std::task::Poll::Ready(result) => machines.push(result.unwrap()),
                std::task::Poll::Pending => left.push(create),
            }
        }
        pending = left;
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    machines
}

fn eight_at_once() {
    let mut options = options();
    options.blanks = 2;
    let rig = Rig::new(options);
    for _ in 0..5 {
        let machines = rig.runtime.block_on(many(&rig.driver, 8));
        machines.iter().for_each(|machine| ping(&**machine));
        let ends = machines.iter().map(|machine| machine.destroy());
        for end in ends {
            rig.runtime.block_on(end).unwrap();
        }
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

fn two_hundred_alive() {
    let rig = Rig::new(options());
    let mut machines = Vec::new();
    for _ in 0..25 {
        machines.extend(rig.runtime.block_on(many(&rig.driver, 8)));
    }
    machines.iter().for_each(|machine| ping(&**machine));
    let pids: std::collections::BTreeSet<u32> = machines.iter().map(|m| m.init_pid()).collect();
    assert_eq!(pids.len(), 200);
    // Shutdown ends them without being asked one by one.
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// Creates that are given up at any moment leave nothing (field case 58).
fn dropped_create_leaves_nothing() {
    let mut options = options();
    options.blanks = 1;
    let rig = Rig::new(options);
    for delay in 0..30 {
        rig.runtime.block_on(async {
            let create = rig.driver.create(spec());
            let _ = tokio::time::timeout(std::time::Duration::from_millis(delay), create).await;
        });
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

fn refused_creates_say_why() {
    let rig = Rig::new(options());
    let mut strange = spec();
    strange.root = Root::Layers(vec!["/nowhere/tree".into()]);
    let error = rig.create(strange).err().unwrap();
    assert_eq!(error.kind, DriverErrorKind::UnknownTemplate);
    let one = spec();
    let machine = rig.create(one.clone()).unwrap();
    assert_eq!(rig.create(one).err().unwrap().kind, DriverErrorKind::Internal, "same id twice");
    ping(&*machine);
    rig.close();

    let mut full = options();
    full.disk_reserve_bytes = u64::MAX;
    let rig = Rig::new(full);
    let error = rig.create(spec()).err().unwrap();
    assert_eq!(error.kind, DriverErrorKind::HostExhausted);
    let instance = rig.driver.instance().to_owned();
    leftovers::assert_none(&instance, &[rig.driver.launcher_pid()]);
    rig.close();
}

fn exit_is_reported() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let pid = rustix::process::Pid::from_raw(machine.init_pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Died);
    rig.destroy(&*machine);
    assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Died, "the first reason stays");
    rig.close();
}
