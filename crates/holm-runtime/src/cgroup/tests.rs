//! Both versions against a fake tree, and the unified one against the kernel's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::discover::{Hierarchy, Place, claim_v2, hierarchies};
use super::*;
use crate::options::Lifetime;

/// A directory that goes away with the test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("holm-cgroup-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fake(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

fn text(dir: &Path, file: &str) -> String {
    std::fs::read_to_string(dir.join(file)).unwrap()
}

const LIMITS: Limits = Limits { memory_bytes: 1 << 30, vcpus: 2, max_processes: 100 };

#[test]
fn v1_writes_and_reads_the_old_files() {
    let temp = Temp::new("v1");
    let parents: BTreeMap<String, PathBuf> = ["memory", "cpu", "cpuacct", "pids", "freezer"]
        .iter()
        .map(|name| ((*name).to_owned(), temp.0.join(name)))
        .collect();
    let tree = Tree::V1(v1::Tree { parents });
    tree.prepare().unwrap();
    tree.prepare().expect("preparing twice is fine");
    let group = tree.group("one");
    group.make().unwrap();
    let dir = |name: &str| temp.0.join(name).join("one");
    for name in ["memory", "cpu", "cpuacct", "pids", "freezer"] {
        fake(&dir(name), &[("tasks", "")]);
    }
    fake(
        &dir("memory"),
        &[
            ("memory.limit_in_bytes", ""),
            ("memory.memsw.limit_in_bytes", ""),
            ("memory.kmem.tcp.limit_in_bytes", ""),
            ("memory.usage_in_bytes", "5000\n"),
            ("memory.stat", "cache 1\ntotal_inactive_file 1000\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ],
    );
    fake(&dir("cpu"), &[("cpu.cfs_period_us", ""), ("cpu.cfs_quota_us", "")]);
    fake(&dir("cpuacct"), &[("cpuacct.usage", "7000000\n")]);
    fake(&dir("pids"), &[("pids.max", ""), ("pids.current", "4\n")]);
    fake(&dir("freezer"), &[("freezer.state", "")]);

    go_through(&group.doors().unwrap()).unwrap();
    group.limit(&LIMITS).unwrap();
    group.freeze(true).unwrap();
    for name in ["memory", "cpu", "cpuacct", "pids", "freezer"] {
        assert_eq!(text(&dir(name), "tasks"), "0", "{name}");
    }
    assert_eq!(text(&dir("memory"), "memory.limit_in_bytes"), "1073741824");
    assert_eq!(text(&dir("memory"), "memory.memsw.limit_in_bytes"), "1073741824");
    assert_eq!(text(&dir("memory"), "memory.kmem.tcp.limit_in_bytes"), "268435456");
    assert_eq!(text(&dir("cpu"), "cpu.cfs_quota_us"), "200000");
    assert_eq!(text(&dir("pids"), "pids.max"), "100");
    assert!(group.is_frozen().unwrap());
    let usage = group.usage();
    assert_eq!(usage.memory_bytes, Some(4000));
    assert_eq!(usage.cpu_usec, Some(7000));
    assert_eq!(usage.processes, Some(4));
    assert_eq!(usage.oom_kills, Some(3));

    // Without swap accounting swapping is turned off instead.
    std::fs::remove_file(dir("memory").join("memory.memsw.limit_in_bytes")).unwrap();
    fake(&dir("memory"), &[("memory.swappiness", "60")]);
    group.limit(&LIMITS).unwrap();
    assert_eq!(text(&dir("memory"), "memory.swappiness"), "00", "fake files are not truncated");
}

#[test]
fn v2_writes_and_reads_the_new_files() {
    let temp = Temp::new("v2");
    let parent = temp.0.join("holm-x");
    std::fs::create_dir(&parent).unwrap();
    fake(&parent, &[("cgroup.subtree_control", "")]);
    let controllers: BTreeSet<String> = ["cpu", "memory", "pids"].map(str::to_owned).into();
    let tree = Tree::V2(v2::Tree { parent: parent.clone(), controllers });
    tree.prepare().unwrap();
    let all = [Ability::Memory, Ability::Cpu, Ability::CpuTime, Ability::Processes];
    assert_eq!(tree.abilities(), all.into());
    let group = tree.group("one");
    group.make().unwrap();
    let dir = parent.join("one");
    fake(
        &dir,
        &[
            ("cgroup.procs", ""),
            ("cgroup.kill", ""),
            ("cgroup.freeze", ""),
            ("cgroup.events", "populated 1\nfrozen 1\n"),
            ("memory.max", ""),
            ("memory.swap.max", ""),
            ("memory.oom.group", ""),
            ("memory.current", "9000\n"),
            ("memory.stat", "inactive_file 2000\n"),
            ("memory.events", "oom 1\noom_kill 2\n"),
            ("cpu.max", ""),
            ("cpu.stat", "usage_usec 12\n"),
            ("pids.max", ""),
            ("pids.current", "6\n"),
        ],
    );
    assert!(group.doors().unwrap().is_empty(), "PID 1 is born in it");
    group.limit(&LIMITS).unwrap();
    group.kill().unwrap();
    for (file, want) in [
        ("cgroup.kill", "1"),
        ("memory.max", "1073741824"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "0"),
        ("cpu.max", "200000 100000"),
        ("pids.max", "100"),
    ] {
        assert_eq!(text(&dir, file), want, "{file}");
    }
    assert!(group.is_frozen().unwrap());
    let usage = group.usage();
    assert_eq!(
        usage,
        Usage {
            memory_bytes: Some(7000),
            cpu_usec: Some(12),
            processes: Some(6),
            oom_kills: Some(2)
        }
    );
}

#[test]
fn finds_its_place_in_each_kind_of_mount() {
    let at = |controllers: &[&str], own: &str, top: &str| Hierarchy {
        controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
        own: own.into(),
        top: top.into(),
    };
    let rows = [
        (
            "hybrid",
            "25 20 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             26 20 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             27 20 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "3:memory:/a/b\n2:cpu,cpuacct:/\n0::/c\n",
            vec![
                at(&["memory"], "/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory"),
                at(&["cpu", "cpuacct"], "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"),
                at(&[], "/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified"),
            ],
        ),
        (
            "container with its own part mounted",
            "30 20 0:23 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "0::/docker/x/y\n",
            vec![at(&[], "/sys/fs/cgroup/y", "/sys/fs/cgroup")],
        ),
        (
            "container with a cgroup namespace",
            "30 20 0:23 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "0::/\n",
            vec![at(&[], "/sys/fs/cgroup", "/sys/fs/cgroup")],
        ),
        ("nothing mounted", "1 1 8:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", vec![]),
    ];
    for (name, mountinfo, cgroup, want) in rows {
        assert_eq!(hierarchies(mountinfo, cgroup), want, "{name}");
    }
}

/// The fake tree does not move, so that it is frozen at once or never.
#[test]
fn freezing_waits_and_is_undone_when_something_does_not_stop() {
    let temp = Temp::new("freeze");
    let parents = BTreeMap::from([("freezer".to_owned(), temp.0.join("freezer"))]);
    let old = Tree::V1(v1::Tree { parents });
    old.prepare().unwrap();
    assert_eq!(old.abilities(), [Ability::Freeze].into());
    let group = old.group("one");
    group.make().unwrap();
    let dir = temp.0.join("freezer/one");
    fake(&dir, &[("freezer.state", "THAWED")]);
    let patience = std::time::Duration::from_millis(30);
    group.freeze_whole(patience).unwrap();
    assert_eq!(text(&dir, "freezer.state"), "FROZEN");
    // Longer than what is written into it, as a state that never comes.
    fake(&dir, &[("freezer.state", "FREEZING")]);
    assert_eq!(group.freeze_whole(patience).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(text(&dir, "freezer.state"), "THAWEDNG", "undone; fake files are not truncated");

    let parent = temp.0.join("holm-x");
    let new = Tree::V2(v2::Tree { parent: parent.clone(), controllers: BTreeSet::new() });
    new.prepare().unwrap();
    assert!(!new.abilities().contains(&Ability::Freeze), "before Linux 5.2");
    fake(&parent, &[("cgroup.freeze", "0")]);
    assert!(new.abilities().contains(&Ability::Freeze));
    let group = new.group("one");
    group.make().unwrap();
    let dir = parent.join("one");
    assert_eq!(group.freeze_whole(patience).unwrap_err().kind(), io::ErrorKind::Unsupported);
    fake(&dir, &[("cgroup.freeze", "0"), ("cgroup.events", "populated 1\nfrozen 1\n")]);
    fake(&dir, &[("memory.stat", "inactive_file 2000\n"), ("memory.reclaim", "")]);
    group.freeze_whole(patience).unwrap();
    assert_eq!(text(&dir, "cgroup.freeze"), "1");
    group.give_back();
    assert_eq!(text(&dir, "memory.reclaim"), "2000");
    std::fs::remove_file(dir.join("memory.reclaim")).unwrap();
    group.give_back();
    fake(&dir, &[("cgroup.events", "populated 1\nfrozen 0\n")]);
    assert_eq!(group.freeze_whole(patience).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(text(&dir, "cgroup.freeze"), "0", "undone");
}

/// As the only group of a container: `members` are in it, of which those below 10 are ours.
fn claimed(name: &str, lifetime: Lifetime, members: &str) -> (Temp, io::Result<PathBuf>) {
    let temp = Temp::new(&format!("{name}-{}", members.len()));
    let own = temp.0.clone();
    fake(&own, &[("cgroup.procs", members)]);
    std::fs::create_dir(own.join(leaf::NAME)).unwrap();
    fake(&own.join(leaf::NAME), &[("cgroup.procs", "")]);
    let unified = Hierarchy { controllers: Vec::new(), own: own.clone(), top: own.clone() };
    // The kernel's rule, and that nothing is made before it is kept.
    let enable = |dir: &Path| {
        let left = members.is_empty() || !text(&own.join(leaf::NAME), "cgroup.procs").is_empty();
        if dir == own && !left {
            assert!(!own.join("holm-x").exists());
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(())
    };
    let place = Place { name: "holm-x", lifetime };
    let made = claim_v2(&unified, &place, enable, |pid| pid < 10);
    (temp, made)
}

#[test]
fn our_processes_go_into_a_leaf_before_controllers_are_handed_down() {
    for (name, lifetime) in [
        ("leaf-owner", Lifetime::Owner),
        ("leaf-service", Lifetime::Detached),
        ("leaf-run", Lifetime::Launcher),
    ] {
        let (own, made) = claimed(name, lifetime, "3\n7\n");
        assert_eq!(made.unwrap(), own.0.join("holm-x"));
        assert!(own.0.join("holm-x").is_dir());
        assert_eq!(text(&own.0.join(leaf::NAME), "cgroup.procs"), "7", "the last one");
        // The root of all has no such rule.
        let (own, made) = claimed(name, lifetime, "");
        assert_eq!(made.unwrap(), own.0.join("holm-x"));
        assert_eq!(text(&own.0.join(leaf::NAME), "cgroup.procs"), "");
        // Somebody else's process is not moved, and so neither is ours.
        let (own, made) = claimed(name, lifetime, "3\n70\n");
        assert_eq!(made.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(text(&own.0.join(leaf::NAME), "cgroup.procs"), "");
        assert!(!own.0.join("holm-x").exists());
    }
}

/// On the kernel's own tree, with or without controllers.
#[test]
#[allow(clippy::print_stdout, reason = "skips are reported on standard output")]
fn a_leaf_takes_all_processes_of_its_group() {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let unified = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let (Some(line), true) = (unified, rustix::process::geteuid().is_root()) else {
        println!("SKIP cgroup: no unified hierarchy is mounted, or this is not root");
        return;
    };
    let root = PathBuf::from(line.split(' ').nth(4).unwrap());
    let own = root.join(format!("holm-leaf-{}", std::process::id()));
    std::fs::create_dir(&own).unwrap();
    let start = || std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut children = [start(), start()];
    let moved: io::Result<Vec<()>> =
        children.iter().map(|child| write(&own, "cgroup.procs", child.id())).collect();
    let refused = leaf::enter(&own, |pid| pid == children[0].id());
    let before = processes(&own);
    // What runs another program is not ours; this test's own process is.
    let known = [children[0].id(), std::process::id()].map(leaf::is_ours);
    let entered = leaf::enter(&own, |pid| children.iter().any(|child| child.id() == pid));
    let (left, inside) = (processes(&own), processes(&own.join(leaf::NAME)));
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for dir in [own.join(leaf::NAME), own.clone()] {
        std::fs::remove_dir(dir).unwrap();
    }
    moved.unwrap();
    assert!(!refused.unwrap());
    assert_eq!(before.unwrap().len(), 2);
    assert_eq!(known, [false, true]);
    assert!(entered.unwrap());
    assert!(left.unwrap().is_empty());
    assert_eq!(inside.unwrap().len(), 2);
}
