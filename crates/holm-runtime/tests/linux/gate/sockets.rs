//! Whose the gate's sockets are, and how they come back.

use holm_runtime::{Driver as _, DriverErrorKind, Lifetime};

use super::serve::{check, python, serve, serve_of};
use super::targets;
use crate::harness::Test;
use crate::leftovers;
use crate::outlive::{Seen, detached, kill};
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("gate_sockets_are_the_owners_alone", sockets_are_the_owners_alone),
    ("gate_binds_again", binds_again),
    ("gate_goes_on_without_the_launcher", goes_on_without_the_launcher),
    ("gate_is_bound_again_after_adoption", is_bound_again_after_adoption),
    ("gate_place_taken_inside_is_told", place_taken_inside_is_told),
    ("gate_may_be_asked_for_while_it_ends", may_be_asked_for_while_it_ends),
];

/// Sockets of a network namespace that somebody listens at, as the namespace's own list has them.
fn listening(pid: u32) -> Vec<String> {
    let mut inodes = Vec::new();
    for (name, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[1].ends_with(":00EC") && fields[3] == state {
                inodes.push(fields[9].to_owned());
            }
        }
    }
    inodes
}

/// Processes that hold one of these sockets.
fn holders(inodes: &[String]) -> Vec<u32> {
    let names: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.into_iter().any(|link| names.iter().any(|name| link.to_str() == Some(name)))
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(holds).collect()
}

fn sockets_are_the_owners_alone() {
    let own = std::process::id();
    for blanks in [0, 1] {
        for lifetime in [Lifetime::Launcher, Lifetime::Owner] {
            let mut options = options();
            (options.blanks, options.refill, options.lifetime) = (blanks, blanks > 0, lifetime);
            let rig = Rig::new(options);
            let machine = rig.create(spec()).unwrap();
            // Whatever is still on its way is there when a command has run.
            assert_eq!(sh(&*machine, "root", "true"), "exit 0\n");
            let sockets = rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap();
            let inodes = listening(machine.init_pid());
            assert_eq!((inodes.len(), holders(&inodes)), (4, vec![own]), "{blanks} {lifetime:?}");
            drop(sockets);
            assert_eq!(listening(machine.init_pid()), Vec::<String>::new());
            rig.close();
        }
    }
}

fn binds_again() {
    let mut options = options();
    options.lifetime = Lifetime::Owner;
    let rig = Rig::new(options);
    let machine = rig.create(spec()).unwrap();
    let ask = || rig.runtime.block_on(machine.gate_sockets());
    let first = ask().unwrap().unwrap();
    // While the first are open nobody can have their place.
    let error = ask().unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::InUse, "{error:?}");
    let served = serve(first);
    targets(&*machine);
    served.stop();
    for _ in 0..3 {
        let served = serve(ask().unwrap().unwrap());
        targets(&*machine);
        check(&*machine, "root", &[("udp('8.8.8.8', 53)", "4 NAME 8.8.8.8 53")]);
        served.stop();
    }
    rig.close();
}

/// What the owner has it keeps, and the next launcher gives it more.
fn goes_on_without_the_launcher() {
    let mut options = options();
    options.lifetime = Lifetime::Owner;
    let rig = Rig::new(options);
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    kill(rig.driver.launcher_pid());
    targets(&*machine);
    served.stop();
    let served = serve_of(&rig, &*machine);
    targets(&*machine);
    served.stop();
    // Made by one launcher, asked for under the next.
    let machine = rig.create(spec()).unwrap();
    kill(rig.driver.launcher_pid());
    let served = serve_of(&rig, &*machine);
    targets(&*machine);
    served.stop();
    rig.close();
}

/// In between it is closed.
fn is_bound_again_after_adoption() {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    targets(&*machine);
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    served.stop();
    drop((machine, rig));
    for round in 0..2 {
        let rig = Rig::new(detached());
        seen.note();
        let id = rig.driver.left_over().pop().unwrap();
        let machine = rig.driver.adopt(&id).unwrap();
        check(&*machine, "root", &[("tcp('198.51.100.7', 80)", "ECONNREFUSED")]);
        let served = serve_of(&rig, &*machine);
        targets(&*machine);
        check(&*machine, "root", &[("udp('fd00::3', 53)", "4 NAME fd00::3 53")]);
        served.stop();
        if round == 1 {
            rig.destroy(&*machine);
        }
        rig.runtime.block_on(rig.driver.leave());
    }
    seen.assert_none();
}

/// Whoever takes it gets what others inside send, and no way out.
fn place_taken_inside_is_told() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    for (user, place, kind) in [
        ("root", "127.0.0.1", "STREAM"),
        ("root", "::1", "STREAM"),
        ("root", "0.0.0.0", "STREAM"),
        ("root", "127.0.0.1", "DGRAM"),
        ("root", "::1", "DGRAM"),
    ] {
        drop(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
        let family = if place.contains(':') { "INET6" } else { "INET" };
        let script = format!(
            "mkfifo /tmp/end; (python3 -c \"import socket
s = socket.socket(socket.AF_{family}, socket.SOCK_{kind})
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(('{place}', 236))
if '{kind}' == 'STREAM': s.listen()
open('/tmp/bound', 'w'); open('/tmp/end').read()\"; rm /tmp/end) > /dev/null 2>&1 &
while [ ! -e /tmp/bound ]; do sleep 0.01; done; rm /tmp/bound"
        );
        assert_eq!(sh(&*machine, user, &script), "exit 0\n");
        let error = rig.runtime.block_on(machine.gate_sockets()).unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::InUse, "{place} {kind}: {error:?}");
        assert!(error.message.contains("port 236"), "{error:?}");
        let script = "echo > /tmp/end; while [ -e /tmp/end ]; do sleep 0.01; done";
        assert_eq!(sh(&*machine, "root", script), "exit 0\n");
        let served = serve_of(&rig, &*machine);
        targets(&*machine);
        served.stop();
    }
    // Others than root cannot have it at all.
    let script = "import socket\ntry: socket.socket().bind(('127.0.0.1', 236))\n\
                  except PermissionError: print('refused')";
    assert_eq!(python(&*machine, "sandbox", script), "refused\n");
    rig.close();
}

/// Whichever comes first, nothing waits and nothing is left.
fn may_be_asked_for_while_it_ends() {
    let rig = Rig::new(options());
    let instance = rig.driver.instance();
    for _ in 0..20 {
        let machine = rig.create(spec()).unwrap();
        let ask = || rig.runtime.block_on(machine.gate_sockets());
        drop(ask());
        rig.runtime.block_on(async {
            let (mut asked, mut ended) = (machine.gate_sockets(), machine.destroy());
            let mut answered = false;
            std::future::poll_fn(|context| {
                answered = answered || asked.as_mut().poll(context).is_ready();
                ended.as_mut().poll(context)
            })
            .await
            .unwrap();
        });
        assert!(ask().is_err(), "one that is gone has no gate");
    }
    rig.close();
    leftovers::assert_none(&instance, &[]);
}
