//! Roots whose /proc, /dev, /etc and others are links: they are followed inside the root only,
//! and nothing outside is mounted over or written.
//!
//! The built-in template has no such links; a template that somebody makes may. Each case builds
//! its root as PID 1 does, in a thread with mounts and a host name of its own.
#![allow(clippy::print_stdout, reason = "skips are reported on standard output")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{kernel, root, shown};
use crate::driver::MountRo;
use crate::failure::Failure;
use crate::ids::IdMap;
use crate::message::{Base, Disk, Layer, Preparation};
use crate::options::DiskSize;
use crate::sys;

/// A template's tree, and what is beside it on the host.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("holm-jail-{}-{number}", std::process::id());
        // Not in /tmp, which the staging area hides: what leads out must have somewhere to lead.
        let place = Self(Path::new("/var/tmp").join(name));
        for dir in ["template", "shown", "out/proc", "out/dev/pts", "out/etc", "out/home/sandbox"] {
            fs::create_dir_all(place.0.join(dir)).unwrap();
        }
        for file in ["shown/mark", "out/proc/mark", "out/dev/null", "out/etc/hostname"] {
            fs::write(place.0.join(file), "as it was").unwrap();
        }
        place
    }

    fn template(&self) -> PathBuf {
        self.0.join("template")
    }

    /// Everything outside of the template, with its content.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.0.join("out"), self.0.join("shown")];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path.clone());
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                found.insert(path, text);
            }
        }
        for file in ["/etc/hostname", "/etc/hosts", "/proc/sys/kernel/hostname"] {
            found.insert(file.into(), fs::read_to_string(file).unwrap_or_default());
        }
        found
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a finished root shows.
#[derive(Debug, Default)]
struct Seen {
    /// The path has processes of its own in it.
    proc: bool,
    /// The path has our devices in it.
    dev: bool,
    hostname: String,
    /// What is in the directory of the host that is shown.
    mark: String,
}

/// Builds a root from the template, with `shown` at `inside`, and gives what is at these paths.
fn build(place: &Place, inside: &str, proc: &str, dev: &str) -> Result<Seen, Failure> {
    sys::thread::leave_mounts_and_name().expect("own mounts");
    let preparation = Preparation {
        ids: IdMap::Range { start: 0 },
        base: Base::Host {
            skeleton: Layer::Path(place.template()),
            trees: Vec::new(),
            over: Vec::new(),
        },
        disk: Disk::Memory(DiskSize { bytes: 1 << 20, inodes: 1000 }),
        mounts: vec![MountRo { host: place.0.join("shown"), inside: inside.to_owned() }],
        mounts_by_fd: false,
    };
    let layers = root::Layers::sort(&preparation, Vec::new())?;
    let mounts = shown::open(&preparation, Vec::new())?;
    let before = mount_points();
    root::enter_staging(&preparation, &layers)?;
    let new_root: OwnedFd = root::mount_overlays(&preparation)?;
    let result = kernel::mount(&new_root, preparation.ids);
    // All that was mounted lies in the staging area, whatever came of it.
    let staging = std::env::current_dir().expect("the staging area");
    assert!(staging.parent().is_some(), "the staging area has a path");
    for point in mount_points().difference(&before) {
        assert!(point.starts_with(&staging), "mounted at {}", point.display());
    }
    result?;
    root::pivot(&new_root)?;
    root::name("inside")?;
    // As the guest does.
    fs::write("/etc/hostname", "inside\n").expect("a host name");
    shown::attach(&preparation.mounts, mounts)?;
    Ok(Seen {
        proc: Path::new(proc).join("self/stat").exists(),
        dev: Path::new(dev).join("pts/ptmx").exists(),
        hostname: fs::read_to_string("/etc/hostname").unwrap_or_default(),
        mark: fs::read_to_string(Path::new(inside).join("mark")).unwrap_or_default(),
    })
}

/// Where something is mounted, in this thread's view.
fn mount_points() -> BTreeSet<PathBuf> {
    let text = fs::read_to_string("/proc/thread-self/mountinfo").expect("mounts");
    text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect()
}

/// Entries of the template: a path that ends in `/` is a directory; others lead somewhere.
/// `OUT` stands for the host's directory. `want`: where /proc and /dev are in the end, or a part
/// of the failure's text.
fn check(entries: &[(&str, &str)], inside: &str, want: Result<(&str, &str), &str>) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP root: mounts of a root with links");
        return;
    }
    let place = Place::new();
    let out = place.0.join("out").display().to_string();
    for (path, leads_to) in entries {
        let path = place.template().join(path.replace("OUT", out.trim_start_matches('/')));
        if leads_to.is_empty() {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(leads_to.replace("OUT", &out), path).unwrap();
        }
    }
    let before = place.outside();
    let inside = inside.replace("/OUT", &out);
    let (proc, dev) = want.unwrap_or_default();
    let (proc, dev) = (proc.replace("OUT", &out), dev.replace("OUT", &out));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| build(&place, &inside, &proc, &dev)).join().expect("no panic inside")
    });
    match (result, want) {
        (Ok(seen), Ok(_)) => {
            assert!(seen.proc && seen.dev, "{entries:?}: {seen:?}");
            assert_eq!((seen.hostname.as_str(), seen.mark.as_str()), ("inside\n", "as it was"));
        }
        (Err(failure), Err(part)) => {
            let text = format!("{} {}", failure.internal, failure.public);
            assert!(text.contains(part), "{entries:?}: {text}");
        }
        (result, _) => panic!("{entries:?}: {result:?} instead of {want:?}"),
    }
    assert_eq!(place.outside(), before, "{entries:?}");
}

#[test]
fn a_plain_root() {
    check(&[("proc", ""), ("dev", ""), ("etc", "")], "/seen", Ok(("/proc", "/dev")));
}

#[test]
fn links_to_places_that_the_root_has_too_stay_inside() {
    let entries = [
        ("OUT/proc", ""),
        ("OUT/dev", ""),
        ("proc", "OUT/proc"),
        ("dev", "OUT/dev"),
        ("etc", "OUT/etc"),
        ("home", "OUT/home"),
        ("workspace", "OUT"),
    ];
    check(&entries, "/seen", Ok(("OUT/proc", "OUT/dev")));
    check(&entries, "/OUT/here", Ok(("OUT/proc", "OUT/dev")));
}

#[test]
fn links_upwards_stop_at_the_root() {
    let entries = [
        ("real/p", ""),
        ("real/d", ""),
        ("proc", "../../../../../../../../real/p"),
        ("dev", "/../real/../real/d"),
        ("etc", "../../../../../../../../etc"),
    ];
    check(&entries, "/seen", Ok(("/real/p", "/real/d")));
}

#[test]
fn chains_of_absolute_links_stay_inside() {
    let entries = [
        ("real/d", ""),
        ("a", "/b"),
        ("b", "/real"),
        ("proc", "/a/p"),
        ("real/p", ""),
        ("dev", "a/d"),
        ("etc", "/a/../../../etc"),
    ];
    check(&entries, "/a/seen", Ok(("/real/p", "/real/d")));
}

#[test]
fn links_that_lead_nowhere_inside_are_refused() {
    check(&[("proc", "OUT/proc"), ("dev", "")], "/seen", Err("find /proc"));
    check(&[("proc", ""), ("dev", "OUT/dev")], "/seen", Err("find /dev"));
    check(&[("proc", "../../../..OUT/proc"), ("dev", "")], "/seen", Err("find /proc"));
    check(&[("proc", "none"), ("dev", "")], "/seen", Err("find /proc"));
    check(&[("proc", "proc"), ("dev", "")], "/seen", Err("find /proc"));
    check(&[("proc", ""), ("dev", "/proc/none")], "/seen", Err("find /dev"));
}

/// Today's kernels refuse these below a root of `openat2` even when not asked to, and say that
/// this may change.
#[test]
fn links_through_a_process_are_refused() {
    for to in ["/proc/1/root/dev", "/proc/self/cwd", "/proc/thread-self/root/dev"] {
        check(&[("proc", ""), ("dev", to)], "/seen", Err("find /dev"));
    }
    let target = [("proc", ""), ("dev", ""), ("data", "/proc/1/root/tmp")];
    check(&target, "/data/seen", Err("cannot be used"));
}

#[test]
fn targets_of_shown_directories_stay_inside() {
    let plain = [("proc", ""), ("dev", "")];
    let with = |entry| [plain[0], plain[1], entry];
    check(&with(("data", "OUT/etc")), "/data/seen", Err("cannot be used"));
    check(&with(("data", "../../..OUT/etc")), "/data", Err("cannot be used"));
    check(&with(("data", "/etc")), "/data/seen", Ok(("/proc", "/dev")));
    check(&with(("data/OUT", "")), "/data/seen", Ok(("/proc", "/dev")));
}
