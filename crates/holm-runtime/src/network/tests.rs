//! Hosts that give all, a part, or nothing, each as a thread with a network of its own.
#![allow(clippy::print_stdout, reason = "skips are reported on standard output")]

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::thread::CapabilitySet;

use super::*;
use crate::driver::DriverErrorKind;
use crate::sys;

#[test]
fn what_the_host_cannot_is_told_from_what_may_pass() {
    let cannot = [Errno::PROTONOSUPPORT, Errno::OPNOTSUPP, Errno::NOENT, Errno::PERM];
    for errno in cannot {
        let gate = missing("rules", Err(errno)).unwrap();
        assert_eq!(gate, Some(Gate::Missing(format!("rules: {errno}"))));
    }
    for errno in [Errno::NOMEM, Errno::NOBUFS, Errno::MFILE, Errno::NFILE] {
        assert!(missing("rules", Err(errno)).is_err(), "{errno}");
    }
    assert_eq!(missing("rules", Ok(())).unwrap(), None);
}

/// In a network of its own, with loopback up.
fn inside<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP root: a network for a test");
        return None;
    }
    let run = || {
        sys::thread::leave_network().expect("a network");
        sys::thread::loopback_up().expect("loopback");
        work()
    };
    Some(std::thread::scope(|scope| scope.spawn(run).join().expect("no panic inside")))
}

#[test]
fn all_is_there_once() {
    let Some((first, second)) = inside(|| (prepare(true).unwrap(), prepare(true).unwrap())) else {
        return;
    };
    assert_eq!((first.0, first.1.len()), (Gate::Both, 4));
    // The rules are there, and none is added to them.
    let why = format!("rules of nf_tables: {}", Errno::EXIST);
    assert_eq!((second.0, second.1.len()), (Gate::Missing(why), 0));
}

#[test]
fn a_host_without_the_newer_protocol_gives_the_older() {
    let found = inside(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("turn it off");
        prepare(true).unwrap()
    });
    let Some((gate, sockets)) = found else { return };
    assert_eq!((gate, sockets.len()), (Gate::V4, 2));
}

#[test]
fn a_host_that_refuses_gives_none() {
    let found = inside(|| {
        let mut sets = rustix::thread::capabilities(None).expect("capabilities");
        sets.effective.remove(CapabilitySet::NET_ADMIN);
        rustix::thread::set_capabilities(None, sets).expect("fewer capabilities");
        prepare(true).unwrap()
    });
    let Some((gate, sockets)) = found else { return };
    let why = format!("rules of nf_tables: {}", Errno::PERM);
    assert_eq!((gate, sockets.len()), (Gate::Missing(why), 0));
    // Also when the refusal comes late.
    let found = inside(|| {
        assert!(link::configure().expect("addresses"));
        prepare(true).unwrap()
    });
    let Some((gate, sockets)) = found else { return };
    let why = format!("addresses and routes: {}", Errno::EXIST);
    assert_eq!((gate, sockets.len()), (Gate::Missing(why), 0));
}

#[test]
fn a_place_that_is_taken_is_told() {
    let error = inside(|| {
        let taken = std::net::UdpSocket::bind(("127.0.0.1", PORT)).expect("its place");
        let error = bind(&Gate::Both).unwrap_err();
        drop(taken);
        assert_eq!(bind(&Gate::Both).unwrap().len(), 4);
        error
    });
    let Some(error) = error else { return };
    assert_eq!(error.kind, DriverErrorKind::InUse);
}

#[test]
fn the_resolvers_file_names_only_who_is_there() {
    let dir = std::env::temp_dir().join(format!("holm-resolver-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let etc: OwnedFd = rustix::fs::open(&dir, flags, Mode::empty()).unwrap();
    let (file, outside) = (dir.join("resolv.conf"), dir.join("outside"));
    std::fs::write(&outside, "as it was").unwrap();
    let servers = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("nameserver "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (gate, want) in [
        (Gate::Both, vec!["10.0.2.3", "fd00::3"]),
        (Gate::V4, vec!["10.0.2.3"]),
        (Gate::Missing("no".into()), vec![]),
    ] {
        std::fs::write(&file, resolver::BOTH).unwrap();
        resolver::correct(&gate, &etc).unwrap();
        assert_eq!(servers(&std::fs::read_to_string(&file).unwrap()), want, "{gate:?}");
        // A link of a template is replaced, not followed.
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&outside, &file).unwrap();
        resolver::correct(&gate, &etc).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "as it was");
    std::fs::remove_dir_all(dir).unwrap();
}
