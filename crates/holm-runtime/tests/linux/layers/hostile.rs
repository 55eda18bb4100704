//! Images that have something else where a sandbox's own things must be: links that lead out,
//! upwards, in a circle or nowhere, files, pipes. Nothing outside changes, and the sandbox works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use super::tree::Tree;
use super::{SURE, check};
use crate::harness::Test;
use crate::rig::base;

pub const TESTS: &[Test] = &[
    ("layers_hostile_places", hostile_places),
    ("layers_hostile_files_of_etc", hostile_files_of_etc),
    ("layers_links_within_the_image", links_within_the_image),
];

/// Places that are ours, and those that images may do with as they like.
const PLACES: [&str; 7] = ["proc", "dev", "etc", "tmp", "workspace", "home", "sys"];

/// A directory of the host that images try to reach, with all that is in it.
struct Outside(PathBuf);

impl Outside {
    fn new(name: &str) -> Self {
        let dir = base().join(name);
        for place in PLACES {
            std::fs::create_dir_all(dir.join(place)).unwrap();
            std::fs::write(dir.join(place).join("mark"), "as it was").unwrap();
        }
        for name in ["hosts", "hostname", "resolv.conf"] {
            std::fs::write(dir.join("etc").join(name), "as it was").unwrap();
        }
        Self(dir)
    }

    fn content(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.0.clone()];
        while let Some(dir) = left.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path.clone());
                }
                found.insert(path.clone(), std::fs::read_to_string(path).unwrap_or_default());
            }
        }
        for file in ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc/sys/kernel/hostname"]
        {
            found.insert(file.into(), std::fs::read_to_string(file).unwrap_or_default());
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.insert("mounts".into(), mounts);
        found
    }
}

/// Makes an obstacle at a path of an image.
type Make<'a> = Box<dyn Fn(&Tree, &str) + 'a>;

/// Makes each kind of obstacle at `path`; each becomes one image.
fn obstacles(outside: &Path) -> Vec<(&'static str, Make<'_>)> {
    let up = "../".repeat(40);
    let link = |to: PathBuf| move |tree: &Tree, path: &str| _ = tree.link(path, &to);
    vec![
        (
            "absolute",
            Box::new(|tree, path| {
                let name = path.rsplit('/').next().unwrap();
                tree.link(path, outside.join(name));
            }),
        ),
        (
            "upwards",
            Box::new(move |tree, path| {
                let name = path.rsplit('/').next().unwrap();
                tree.link(path, format!("{up}{}/{name}", outside.display()));
            }),
        ),
        ("to the root", Box::new(link("/".into()))),
        (
            "circle",
            Box::new(|tree, path| {
                let name = path.rsplit('/').next().unwrap();
                tree.link(path, name);
            }),
        ),
        ("nowhere", Box::new(link("/nowhere/at/all".into()))),
        ("into proc", Box::new(link("/proc/1/root".into()))),
        ("file", Box::new(|tree, path| _ = tree.file(path, "a file"))),
        (
            "pipe",
            Box::new(|tree, path| {
                rustix::fs::mknodat(CWD, tree.at(path), FileType::Fifo, Mode::RUSR, 0).unwrap();
            }),
        ),
        (
            "device",
            Box::new(|tree, path| {
                // The kernel's log.
                let device = rustix::fs::makedev(1, 11);
                let kind = FileType::CharacterDevice;
                rustix::fs::mknodat(CWD, tree.at(path), kind, Mode::RUSR, device).unwrap();
            }),
        ),
    ]
}

fn hostile_places() {
    let outside = Outside::new("outside-places");
    let before = outside.content();
    for (kind, make) in obstacles(&outside.0) {
        let tree = Tree::new().with_programs();
        PLACES.iter().for_each(|place| make(&tree, place));
        println!("  {kind}");
        check(&[&tree], "root", SURE);
        assert_eq!(outside.content(), before, "{kind}");
    }
}

fn hostile_files_of_etc() {
    let outside = Outside::new("outside-etc");
    let etc = outside.0.join("etc");
    let before = outside.content();
    for (kind, make) in obstacles(&etc) {
        let tree = Tree::new().with_programs();
        for name in ["etc/hosts", "etc/hostname", "etc/resolv.conf"] {
            make(&tree, name);
        }
        println!("  {kind}");
        check(&[&tree], "root", SURE);
        assert_eq!(outside.content(), before, "{kind}");
    }
    // Directories there stay, and nothing breaks.
    let tree = Tree::new().with_programs();
    tree.dir("etc/hosts/x").dir("etc/hostname").dir("etc/resolv.conf");
    check(
        &[&tree],
        "root",
        &[("ls -d /etc/hosts/x && test -e /proc/self/stat", "/etc/hosts/x\nexit 0\n")],
    );
}

/// Links that lead somewhere in the image are the image's own business where they do no harm.
fn links_within_the_image() {
    let tree = Tree::new().with_programs();
    tree.link("etc", "usr/etc").file("usr/etc/passwd", "root:x:0:0::/:\n");
    tree.link("tmp", "/var/tmp").dir("var/tmp").link("home", "var/home").dir("var/home/ana");
    check(&[&tree], "root", SURE);
    let rows = [
        (
            "for at in etc tmp home; do readlink /$at; done; cat /etc/passwd",
            "usr/etc\n/var/tmp\nvar/home\nroot:x:0:0::/:\nexit 0\n",
        ),
        ("ls /usr/etc; ls /home", "hostname\nhosts\npasswd\nresolv.conf\nana\nexit 0\n"),
    ];
    check(&[&tree], "root", &rows);
}
