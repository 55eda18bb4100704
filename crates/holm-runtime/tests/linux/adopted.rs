//! What is taken over and what is not, and how the ends of sandboxes are told that are nobody's
//! children.

use std::collections::BTreeSet;
use std::process::Command;

use holm_runtime::{Driver as _, ExitReason, Lifetime};

use crate::harness::Test;
use crate::leftovers;
use crate::outlive::{Seen, detached, is_alive, kill, ping};
use crate::rig::{Rig, base, spec};

pub const TESTS: &[Test] = &[
    ("adopted_what_cannot_be_read_is_removed", what_cannot_be_read_is_removed),
    ("adopted_others_leave_it_alone", others_leave_it_alone),
    ("adopted_ends_are_told", ends_are_told),
];

/// A record that is not whole, or of a later version, is no reason to leave anything.
fn what_cannot_be_read_is_removed() {
    // Started before all of them, so that its start is not theirs.
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let machines: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
    let ids: Vec<_> = machines.iter().map(|machine| machine.init_pid()).collect();
    let instance = base().join("service/instances").join(rig.driver.instance());
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    drop((machines, rig));
    let names: Vec<_> = std::fs::read_dir(instance.join("sandboxes")).unwrap().flatten().collect();
    let record = std::fs::read_to_string(names[0].path()).unwrap();
    std::fs::write(names[0].path(), &record[..record.trim_end().len() / 2]).unwrap();
    let record = std::fs::read_to_string(names[1].path()).unwrap();
    let later = record.replace("\"version\":1", "\"version\":2");
    assert_ne!(record, later);
    std::fs::write(names[1].path(), later).unwrap();
    // A number that belongs to somebody else now: the record's process is gone.
    let record = std::fs::read_to_string(names[2].path()).unwrap();
    let pid = ids.iter().find(|pid| record.contains(&format!("\"pid\":{pid},"))).unwrap();
    let number = format!("\"pid\":{pid},");
    let wrong = record.replace(&number, &format!("\"pid\":{},", other.id()));
    std::fs::write(names[2].path(), wrong).unwrap();
    let rig = Rig::new(detached());
    assert!(rig.driver.left_over().is_empty());
    leftovers::wait_until("they live on", || !ids.iter().any(|pid| is_alive(*pid)));
    assert!(is_alive(other.id()), "somebody else's process was killed");
    kill(other.id());
    other.wait().unwrap();
    rig.close();
    // What was still there when the launcher gave up, the next one removes.
    Rig::new(detached()).close();
    seen.assert_none();
}

/// An embedded holm of the same data directory neither sweeps it nor takes its ids.
fn others_leave_it_alone() {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let service = rig.create(spec()).unwrap();
    let id = rig.driver.left_over().pop();
    assert_eq!(id, None);
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    let map = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
    let pid = service.init_pid();
    let mut embedded = detached();
    embedded.lifetime = Lifetime::Launcher;
    for _ in 0..3 {
        let rig = Rig::new(embedded.clone());
        let machine = rig.create(spec()).unwrap();
        assert_ne!(map(machine.init_pid()), map(pid), "two sandboxes with the same ids");
        seen.note();
        rig.close();
    }
    ping(&*service);
    drop((service, rig));
    let rig = Rig::new(detached());
    let id = rig.driver.left_over().pop().unwrap();
    let machine = rig.driver.adopt(&id).unwrap();
    assert_eq!(machine.init_pid(), pid);
    ping(&*machine);
    // New ones have other ids than the one that was adopted.
    let more: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
    let maps: BTreeSet<_> = more.iter().map(|machine| map(machine.init_pid())).collect();
    assert!(maps.len() == 3 && !maps.contains(&map(pid)));
    // All of them, adopted or not.
    rig.close();
    assert!(!is_alive(pid));
    seen.assert_none();
}

/// Of one that is nobody's child, before and after it was adopted.
fn ends_are_told() {
    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let machines: Vec<_> = (0..3).map(|_| rig.create(spec()).unwrap()).collect();
    let pids: Vec<_> = machines.iter().map(|machine| machine.init_pid()).collect();
    kill(pids[0]);
    assert_eq!(rig.runtime.block_on(machines[0].exited()), ExitReason::Died);
    rig.destroy(&*machines[0]);
    // While there is no launcher.
    let launcher = rig.driver.launcher_pid();
    kill(pids[1]);
    kill(launcher);
    assert_eq!(rig.runtime.block_on(machines[1].exited()), ExitReason::Died);
    rig.destroy(&*machines[1]);
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    drop((machines, rig));
    let rig = Rig::new(detached());
    seen.note();
    let id = rig.driver.left_over().pop().unwrap();
    // Found, and dead before it is adopted.
    kill(pids[2]);
    let machine = rig.driver.adopt(&id).unwrap();
    assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Died);
    rig.destroy(&*machine);
    rig.close();
    seen.assert_none();
}
