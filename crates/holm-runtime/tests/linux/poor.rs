//! Hosts that do not give everything (field case 116), made by taking it away from a child of this
//! program.

use std::process::Command;

use holm_runtime::{DriverErrorKind, Layer, doctor};

use crate::harness::Test;
use crate::rig::{Rig, ask, base, options, spec};

pub const TESTS: &[Test] = &[
    ("poor_without_user_namespaces_nothing_runs", without_user_namespaces_nothing_runs),
    ("poor_with_read_only_cgroups_limits_are_missing", with_read_only_cgroups),
];

fn run_child(unshare: &[&str], script: &str, kind: &str) {
    let dir = base().join(kind);
    std::fs::create_dir_all(&dir).unwrap();
    let status = Command::new("unshare")
        .args(unshare)
        .args(["sh", "-c", &format!("{script} && exec \"$@\"")])
        .args(["sh", std::env::current_exe().unwrap().to_str().unwrap(), "poor-child"])
        .arg(&dir)
        .arg(kind)
        .status();
    assert!(status.unwrap().success(), "{kind}");
    std::fs::remove_dir_all(dir).unwrap();
}

fn without_user_namespaces_nothing_runs() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces";
    run_child(&["--user", "--map-root-user"], script, "no-userns");
}

fn with_read_only_cgroups() {
    let script = "for m in /sys/fs/cgroup/*; do \
        mountpoint -q $m && mount -o remount,bind,ro $m; done; true";
    run_child(&["--mount"], script, "no-cgroups");
}

/// In the child.
pub fn child(kind: &str) -> ! {
    let found = doctor::report(&options());
    let rig = Rig::new(options());
    let created = rig.create(spec());
    match kind {
        "no-userns" => {
            let error = created.err().expect("nothing runs without isolation");
            assert_eq!(error.kind, DriverErrorKind::IsolationUnavailable, "{error:?}");
            assert!(error.message.contains("user.max_"), "{error:?}");
            let missing: Vec<Layer> = found.missing_mandatory().map(|row| row.layer).collect();
            assert!(missing.contains(&Layer::UserNamespace), "{missing:?}");
        }
        _ => {
            let machine = created.unwrap();
            assert_eq!(ask(machine.guest_socket(), "ping").unwrap(), "pong");
            assert_eq!(machine.usage().memory_bytes, None);
            assert_eq!(found.missing_mandatory().count(), 0);
            for layer in [Layer::MemoryLimit, Layer::CpuLimit] {
                let row = found.layers.iter().find(|row| row.layer == layer).unwrap();
                assert!(!row.enforced && row.mend.is_some(), "{row:?}");
            }
        }
    }
    rig.close();
    std::process::exit(0)
}
