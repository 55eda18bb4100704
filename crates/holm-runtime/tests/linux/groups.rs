//! Cgroups and the doctor's table as the host really has them.

use std::process::{Child, Command};

use holm_runtime::cgroup::{Ability, Control as _, Tree, V2Tree};
use holm_runtime::{Driver as _, Layer, doctor};

use crate::harness::Test;
use crate::rig::{Rig, options};

pub const TESTS: &[Test] = &[
    ("groups_unified_freezes_kills_and_empties", unified_freezes_kills_and_empties),
    ("groups_doctor_sees_all_layers", doctor_sees_all_layers),
    ("groups_doctor_names_what_is_missing", doctor_names_what_is_missing),
    (
        "groups_what_is_demanded_is_mandatory_and_told_before_a_sandbox_is_made",
        what_is_demanded_is_mandatory_and_told_before_a_sandbox_is_made,
    ),
];

/// Where the unified hierarchy is mounted, on hosts of either version.
fn unified() -> std::path::PathBuf {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 ")).expect("cgroup2 mounted");
    line.split(' ').nth(4).unwrap().into()
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "{what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

/// On the kernel's own tree, with or without controllers.
fn unified_freezes_kills_and_empties() {
    let parent = unified().join(format!("holm-test-{}", std::process::id()));
    let tree = Tree::V2(V2Tree::without_controllers(parent.clone()));
    tree.prepare().unwrap();
    let group = tree.group("one");
    group.make().unwrap();
    let mut child = sleeper();
    std::fs::write(group.dirs()[0].join("cgroup.procs"), child.id().to_string()).unwrap();
    let place = std::fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    let name = parent.file_name().unwrap().to_str().unwrap();
    assert!(place.contains(&format!("0::/{name}/one")), "{place}");
    assert!(!group.remove().unwrap(), "a group with processes cannot be removed");
    assert!(tree.abilities().contains(&Ability::Freeze));
    group.freeze_whole(std::time::Duration::from_secs(30)).unwrap();
    assert!(group.is_frozen().unwrap());
    group.give_back();
    group.freeze(false).unwrap();
    wait_for("thawed", || !group.is_frozen().unwrap());
    group.freeze(true).unwrap();
    // Frozen processes die too.
    group.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    wait_for("removed", || group.remove().unwrap());
    assert!(group.remove().unwrap(), "removing twice is fine");
    std::fs::remove_dir(parent).unwrap();
}

fn doctor_sees_all_layers() {
    let found = doctor::report(&options());
    assert_eq!(found.mode, "root");
    assert_eq!(found.layers.len(), 21);
    for row in &found.layers {
        assert!(row.enforced || !row.mandatory, "{row:?}");
    }
    let memory = found.layers.iter().find(|row| row.layer == Layer::MemoryLimit).unwrap();
    assert!(memory.by.starts_with("cgroup v"), "{memory:?}");
}

fn doctor_names_what_is_missing() {
    let mut poor = options();
    poor.without_cgroups = true;
    poor.disk_in_memory = true;
    let found = doctor::report(&poor);
    for row in &found.layers {
        let weak = matches!(
            row.layer,
            Layer::MemoryLimit
                | Layer::CpuLimit
                | Layer::ProcessLimit
                | Layer::DiskLimit
                | Layer::InodeLimit
        );
        assert_eq!(row.mend.is_some(), weak, "{row:?}");
    }
    assert_eq!(found.missing_mandatory().count(), 0);
}

fn what_is_demanded_is_mandatory_and_told_before_a_sandbox_is_made() {
    let mut poor = options();
    poor.without_cgroups = true;
    poor.demanded = vec![Layer::OwnIdRange, Layer::MemoryLimit];
    let rig = Rig::new(poor);
    let lacking: Vec<Layer> = rig.driver.lacking().iter().map(|row| row.layer).collect();
    assert_eq!(lacking, [Layer::MemoryLimit]);
    let found = rig.driver.enforcement();
    let missing: Vec<Layer> = found.missing_mandatory().map(|row| row.layer).collect();
    assert_eq!(missing, [Layer::MemoryLimit], "the processor's was not demanded");
    rig.close();
}
