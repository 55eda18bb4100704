//! Finds what is left of a home's sandboxes on the host. Only this home's things count: other
//! holms may run on the same machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::home::Home;
use super::proc;

/// Adds a line for each thing that is left.
pub fn find(home: &Home, left: &mut Vec<String>) {
    let instances = home.instances.lock().expect("no test thread panicked here").clone();
    let dir = home.dir.to_string_lossy().into_owned();
    processes(home, &dir, &instances, left);
    for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new) {
        cgroups(hierarchy, 4, &instances, left);
    }
    lines("/proc/self/mountinfo", &dir, "mount", left);
    lines("/proc/net/unix", &dir, "socket", left);
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = entry.path().join("loop/backing_file");
        if fs::read_to_string(backing).is_ok_and(|text| text.contains(&dir)) {
            left.push(format!("loop device {}", entry.file_name().to_string_lossy()));
        }
    }
    for place in [home.runtime(), home.data().join("instances")] {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            if entry.path().is_dir() && entry.file_name() != "instances" {
                left.push(format!("directory {}", entry.path().display()));
            }
        }
    }
}

fn processes(home: &Home, dir: &str, instances: &[String], left: &mut Vec<String>) {
    for pid in proc::pids() {
        if matches!(proc::state(pid), None | Some('Z' | 'X')) {
            continue;
        }
        let base = format!("/proc/{pid}");
        let read = |name: &str| fs::read_to_string(format!("{base}/{name}")).unwrap_or_default();
        let ours = fs::read_link(format!("{base}/exe")).is_ok_and(|exe| exe.starts_with(dir))
            || home
                .own_uid
                .is_some_and(|uid| fs::metadata(&base).is_ok_and(|meta| meta.uid() == uid))
            || read("mountinfo").contains(dir)
            || {
                let text = read("cgroup");
                instances.iter().any(|id| text.contains(id))
            };
        if ours {
            left.push(format!("process {pid}: {}", proc::command_line(pid)));
        }
    }
}

fn cgroups(dir: &Path, depth: u32, instances: &[String], left: &mut Vec<String>) {
    if depth == 0 || instances.is_empty() {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if instances.iter().any(|id| name.contains(id)) {
            left.push(format!("cgroup {}", entry.path().display()));
        }
        cgroups(&entry.path(), depth - 1, instances, left);
    }
}

fn lines(file: &str, dir: &str, what: &str, left: &mut Vec<String>) {
    let text = fs::read_to_string(file).unwrap_or_default();
    left.extend(
        text.lines().filter(|line| line.contains(dir)).map(|line| format!("{what}: {line}")),
    );
}
