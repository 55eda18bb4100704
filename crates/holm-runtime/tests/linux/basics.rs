//! A sandbox from its making to its end.

use crate::harness::Test;
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[("basics_create_ask_destroy", create_ask_destroy)];

fn create_ask_destroy() {
    let rig = Rig::new(options());
    let machine = match rig.create(spec()) {
        Ok(machine) => machine,
        Err(error) => panic!("{error:?}"),
    };
    println!(
        "{}",
        sh(
            &*machine,
            "sandbox",
            "id; pwd; ls -la /; hostname; cat /proc/self/mountinfo; cat /proc/self/cgroup; nproc; ls -la /home /workspace; df -h; df -i; touch /usr/x; touch /workspace/y && ls -la /workspace; python3 -c 'print(6*7)'"
        )
    );
    println!(
        "{}",
        sh(
            &*machine,
            "root",
            "id; ls -la /proc/1/ | head; cat /proc/self/status | grep -E 'Cap|Secc|NoNew'; touch /usr/x && ls -la /usr/x; rm /usr/bin/yes; ls /usr/bin/yes;ls -la /proc/self/fd /dev; cat /etc/hosts"
        )
    );
    let pid = machine.init_pid();
    rig.destroy(&*machine);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    rig.close();
}
