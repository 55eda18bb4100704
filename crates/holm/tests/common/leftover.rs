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
    // Of the network that this thread is in.
    lines("/proc/thread-self/net/unix", &dir, "socket", left);
    left.extend(loops(&dir));
    for place in [home.runtime(), home.data().join("instances")] {
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            if entry.path().is_dir() && entry.file_name() != "instances" {
                left.push(format!("directory {}", entry.path().display()));
            }
        }
    }
}

/// Loop devices of files in a directory.
fn loops(dir: &str) -> Vec<String> {
    let all = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let ours = all.filter(|entry| {
        let backing = entry.path().join("loop/backing_file");
        fs::read_to_string(backing).is_ok_and(|text| text.contains(dir))
    });
    ours.map(|entry| format!("loop device {}", entry.file_name().to_string_lossy())).collect()
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

/// What is there beside `own` processes and the sandboxes and blanks that are recorded.
pub fn find_unrecorded(home: &Home, own: &[u32], left: &mut Vec<String>) {
    let namespace = |pid: u64| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let instances = home.instances.lock().expect("no test thread panicked here").clone();
    let dir = home.dir.to_string_lossy().into_owned();
    let mut found = Vec::new();
    processes(home, &dir, &instances, &mut found);
    let records = home.records();
    let inside: Vec<_> =
        records.iter().filter_map(|record| namespace(record["init"]["pid"].as_u64()?)).collect();
    left.extend(found.into_iter().filter(|process| {
        let pid = process.split(' ').nth(1).and_then(|pid| pid.strip_suffix(':'));
        let pid = pid.and_then(|pid| pid.parse().ok()).expect("a process id");
        // What has ended since is not there.
        let there = namespace(pid);
        there.is_some_and(|there| !inside.contains(&there))
            && !own.iter().any(|own| u64::from(*own) == pid)
    }));
    let groups: String = records.iter().map(|record| record["group"].to_string()).collect();
    found = Vec::new();
    for hierarchy in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new) {
        cgroups(hierarchy, 4, &instances, &mut found);
    }
    for group in found {
        let dir = Path::new(&group["cgroup ".len()..]);
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        // An instance's own is there as long as there is one of a sandbox in it.
        if !groups.contains(&format!("/{name}/")) {
            left.push(group.clone());
        }
        for below in fs::read_dir(dir).into_iter().flatten().flatten() {
            let of_sandbox = below.file_name().to_string_lossy().into_owned();
            let is_dir = below.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && !groups.contains(&format!("/{name}/{of_sandbox}\"")) {
                left.push(format!("{group}/{of_sandbox}"));
            }
        }
    }
    let backed = loops(&dir);
    if backed.len() > records.len() {
        left.push(format!("{} sandboxes are recorded, but {backed:?}", records.len()));
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
