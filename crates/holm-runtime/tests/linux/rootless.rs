//! The same as an ordinary user, in a child of this program that has become one.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use holm_runtime::{Layer, doctor};

use crate::gate;
use crate::harness::Test;
use crate::rig::{Rig, ask, base, options, sh, spec};
use crate::{layers, leftovers, packed, ports};

pub const TESTS: &[Test] = &[
    ("rootless_with_one_id", with_one_id),
    ("rootless_with_subordinate_ids", with_subordinate_ids),
];

/// A user without an account, so without subordinate ids.
const LONE: u32 = 54_321;
/// `games`, an account that every Debian has, for whom a range is made up in a private view.
const ACCOUNT: u32 = 5;

fn prepare(name: &str, uid: u32) -> std::path::PathBuf {
    let dir = base().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(base(), std::fs::Permissions::from_mode(0o755)).unwrap();
    chown(&dir, Some(uid), Some(uid)).unwrap();
    // The user may not reach where this program lies.
    let program = dir.join("program");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn run_child(mut command: Command, dir: &Path, kind: &str) {
    let status =
        command.arg(dir.join("program")).args(["rootless-child"]).arg(dir).arg(kind).status();
    assert!(status.unwrap().success(), "{kind}");
    std::fs::remove_dir_all(dir).unwrap();
}

fn with_one_id() {
    let dir = prepare("lone", LONE);
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={LONE}"), &format!("--regid={LONE}"), "--clear-groups"]);
    run_child(command, &dir, "single");
}

fn with_subordinate_ids() {
    let dir = prepare("account", ACCOUNT);
    // Beside our directories, in which no mount may be left.
    let ids = std::env::temp_dir().join(format!("holm-subids-{}", std::process::id()));
    std::fs::write(&ids, "games:700000:65536\n").unwrap();
    std::fs::set_permissions(&ids, std::fs::Permissions::from_mode(0o644)).unwrap();
    let script = format!(
        "mount --bind {0} /etc/subuid && mount --bind {0} /etc/subgid && \
         exec setpriv --reuid={ACCOUNT} --regid=60 --clear-groups \"$@\"",
        ids.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]);
    run_child(command, &dir, "subordinate");
    std::fs::remove_file(ids).unwrap();
}

/// In the child.
pub fn child(kind: &str) -> ! {
    let single = kind == "single";
    let mut options = options();
    options.blanks = 1;
    let found = doctor::report(&options);
    assert_eq!(found.mode, if single { "rootless" } else { "rootless with subordinate ids" });
    let missing: Vec<_> = found.missing_mandatory().collect();
    assert!(missing.is_empty(), "{missing:?}");
    let range = found.layers.iter().find(|row| row.layer == Layer::OwnIdRange).unwrap();
    assert_eq!((range.enforced, range.mend.is_some()), (!single, single), "{range:?}");

    let rig = Rig::new(options);
    for _ in 0..3 {
        let machine = rig.create(spec()).unwrap();
        // Those that came with it, and those that are bound later.
        for _ in 0..2 {
            let served = gate::serve_of(&rig, &*machine);
            gate::targets(&*machine);
            served.stop();
        }
        ports::check(&rig, &*machine);
        packed::of_a_user(&rig, &*machine);
        for (script, want) in [
            ("id -u; id -g; hostname", "1000\n1000\nisland\nexit 0\n"),
            (
                "cd /workspace && echo hello > f && cat f && cd /home/user && touch g && ls",
                "hello\ng\nexit 0\n",
            ),
            ("touch /usr/bin/x 2>/dev/null; echo $?", "1\nexit 0\n"),
            ("head -c 100000000 /dev/zero > /tmp/x 2>/dev/null; echo $?; rm /tmp/x", "1\nexit 0\n"),
            ("python3 -c 'print(6*7)'", "42\nexit 0\n"),
            (
                "(mount -t tmpfs x /mnt || unshare -r true || mount) 2>/dev/null >&2; ls /sys | wc -l",
                "0\nexit 0\n",
            ),
            (
                "grep -E 'Seccomp:|NoNewPrivs' /proc/self/status | tr -d '\\t\\n'",
                "NoNewPrivs:1Seccomp:2exit 0\n",
            ),
        ] {
            assert_eq!(sh(&*machine, "sandbox", script), want, "{kind}: {script}");
        }
        if !single {
            for (script, want) in [
                (
                    "id -u; echo 1 >> /etc/hosts && chown 1234:99 /etc/hosts && stat -c %u:%g /etc/hosts",
                    "0\n1234:99\nexit 0\n",
                ),
                ("stat -c %U /etc/passwd /workspace", "root\nsandbox\nexit 0\n"),
            ] {
                assert_eq!(sh(&*machine, "root", script), want, "{kind}: {script}");
            }
        }
        rig.destroy(&*machine);
    }
    on_layers(&rig, single);
    let machine = rig.create(spec()).unwrap();
    assert_eq!(ask(machine.guest_socket(), "ping").unwrap(), "pong");
    // Killing the launcher ends what it started, without any cgroup.
    let launcher = rustix::process::Pid::from_raw(rig.driver.launcher_pid().cast_signed()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    rig.runtime.block_on(machine.exited());
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::wait_for_none(&instance, &[]);
    std::process::exit(0)
}

/// Layers as this user unpacks them: with one id all files are the user's, else those of root are.
fn on_layers(rig: &Rig, single: bool) {
    let [low, middle, top] = layers::three_layers();
    low.link("proc", "/etc").link("dev", "dev").file("tmp", "").link("etc/hosts", "/etc/hostname");
    for _ in 0..2 {
        let machine = rig.create(layers::on(&[&low, &middle, &top])).unwrap();
        let user = if single { "sandbox" } else { "root" };
        for (script, want) in layers::SURE.iter().chain(layers::THREE) {
            assert_eq!(sh(&*machine, user, script), *want, "{script}");
        }
        rig.destroy(&*machine);
    }
    assert_eq!(std::fs::read_to_string(low.path().join("a/b")).unwrap(), "b");
}
