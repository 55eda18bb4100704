//! What is left on the host of the holms of this test program, and of no other.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::rig;

/// Fails unless nothing is left. `alive` are processes that may be there.
pub fn assert_none(instance: &str, alive: &[u32]) {
    let found = find(instance, alive);
    assert!(found.is_empty(), "left on the host: {found:#?}");
}

/// Waits for that, for things that go on behind the caller's back.
pub fn wait_for_none(instance: &str, alive: &[u32]) {
    let start = Instant::now();
    while !find(instance, alive).is_empty() {
        if start.elapsed() > Duration::from_secs(30) {
            assert_none(instance, alive);
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until that is so.
pub fn wait_until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn find(instance: &str, alive: &[u32]) -> Vec<String> {
    let mut found = processes(alive);
    found.extend(cgroups(Path::new("/sys/fs/cgroup"), &format!("holm-{instance}"), 0));
    found.extend(loop_devices());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let base = rig::base().display().to_string();
    found.extend(mounts.lines().filter(|line| line.contains(&base)).map(str::to_owned));
    found.extend(files(&rig::base().join("run"), ".sock"));
    found
}

/// Processes whose program is this one: launchers, builders, and PID 1s, which run a copy of it.
fn processes(alive: &[u32]) -> Vec<String> {
    let own = std::fs::metadata("/proc/self/exe").expect("look at this program").len();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("read /proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let exe = entry.path().join("exe");
        let same = std::fs::metadata(&exe).is_ok_and(|meta| meta.size() == own);
        // The launcher's helper lives as long as the launcher.
        let helper = std::fs::read_to_string(entry.path().join("comm"));
        let helper = helper.is_ok_and(|name| name == "holm-janitor\n") && !alive.is_empty();
        if same
            && !helper
            && pid != std::process::id()
            && !alive.contains(&pid)
            && !is_ancestor(pid)
        {
            found.push(format!("process {pid} {:?}", std::fs::read_link(exe)));
        }
    }
    found
}

/// The test program may itself be started by a copy of itself.
fn is_ancestor(pid: u32) -> bool {
    std::os::unix::process::parent_id() == pid
}

fn cgroups(dir: &Path, name: &str, depth: usize) -> Vec<String> {
    let Ok(list) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in list.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        let path = entry.path();
        if entry.file_name() == name {
            // The parent itself lives as long as the launcher; its children are sandboxes.
            let children = std::fs::read_dir(&path).into_iter().flatten().flatten();
            let children = children.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            found.extend(children.map(|e| format!("cgroup {}", e.path().display())));
        } else if depth < 6 {
            found.extend(cgroups(&path, name, depth + 1));
        }
    }
    found
}

fn loop_devices() -> Vec<String> {
    let base = rig::base().display().to_string();
    let list = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    list.filter_map(|entry| {
        let file = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        file.starts_with(&base).then(|| format!("{:?} {file}", entry.file_name()))
    })
    .collect()
}

fn files(dir: &Path, suffix: &str) -> Vec<String> {
    let Ok(list) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in list.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.extend(files(&entry.path(), suffix));
        } else if entry.file_name().to_string_lossy().ends_with(suffix) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

/// Waits until the guest of a sandbox below that directory answers: where no sandbox is anybody's, it
/// is a blank that has only its name to get.
pub fn wait_for_blank(runtime_dir: &Path) {
    wait_for_blank_besides(runtime_dir, 0);
}

/// The same where there are so many sandboxes already.
pub fn wait_for_blank_besides(runtime_dir: &Path, others: usize) {
    let answers =
        |socket: &&String| rig::ask(Path::new(socket), "ping").is_ok_and(|it| it == "pong");
    let alive = || files(runtime_dir, ".sock").iter().filter(answers).count();
    wait_until("there is no blank", || alive() > others);
}

/// The group of an instance's only sandbox, in the hierarchy whose groups have that file.
pub fn group(instance: &str, file: &str) -> Option<std::path::PathBuf> {
    fn below(dir: &Path, name: &str, file: &str, depth: usize) -> Option<std::path::PathBuf> {
        let list = std::fs::read_dir(dir).ok()?.flatten();
        let dirs =
            list.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink());
        for path in dirs {
            if path.file_name().is_some_and(|own| own == name) {
                let mut groups = std::fs::read_dir(&path).ok()?.flatten().map(|entry| entry.path());
                if let Some(found) = groups.find(|group| group.join(file).is_file()) {
                    return Some(found);
                }
            } else if depth < 4
                && let Some(found) = below(&path, name, file, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }
    below(Path::new("/sys/fs/cgroup"), &format!("holm-{instance}"), file, 0)
}
