//! Finds where this process may make groups.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{Tree, leaf, v1, v2};
use crate::options::Lifetime;

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Where groups can be made, if anywhere.
    pub tree: Option<Tree>,
    /// Why something is missing.
    pub problems: Vec<String>,
}

/// A mounted hierarchy and our place in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Controllers of the old interface; empty for the unified hierarchy.
    pub controllers: Vec<String>,
    /// Directory of our own group.
    pub own: PathBuf,
    /// Directory where it is mounted.
    pub top: PathBuf,
}

/// Looks for a place for groups named `name`, and makes the parents there. The old interface is
/// preferred where it has the controllers, because then the unified one has none.
#[must_use]
pub fn discover(name: &str, lifetime: Lifetime) -> Found {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let found = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let mut problems = Vec::new();
    let place = Place { name, lifetime };
    let old = find_v1(&found, &place, &mut problems);
    if let Some(tree) = old {
        return Found { tree: Some(Tree::V1(tree)), problems };
    }
    let tree = found
        .iter()
        .find(|hierarchy| hierarchy.controllers.is_empty())
        .and_then(|unified| find_v2(unified, &place, &mut problems));
    if tree.is_none() && problems.is_empty() {
        problems.push("no cgroup hierarchy with a memory or pids controller is mounted".into());
    }
    Found { tree: tree.map(Tree::V2), problems }
}

/// The parent's name, and what it is for.
pub(super) struct Place<'a> {
    pub name: &'a str,
    pub lifetime: Lifetime,
}

fn find_v1(found: &[Hierarchy], place: &Place<'_>, problems: &mut Vec<String>) -> Option<v1::Tree> {
    let mut parents = BTreeMap::new();
    for controller in v1::CONTROLLERS {
        let Some(hierarchy) = found.iter().find(|h| h.controllers.iter().any(|c| c == controller))
        else {
            continue;
        };
        match claim(hierarchy, place, make_dir) {
            Ok(dir) => drop(parents.insert(controller.to_owned(), dir)),
            Err(error) => problems.push(format!("cgroup v1 {controller}: {error}")),
        }
    }
    let useful = ["memory", "pids"].iter().any(|name| parents.contains_key(*name));
    if !useful {
        for dir in parents.values() {
            let _ = std::fs::remove_dir(dir);
        }
    }
    useful.then_some(v1::Tree { parents })
}

fn find_v2(unified: &Hierarchy, place: &Place<'_>, problems: &mut Vec<String>) -> Option<v2::Tree> {
    let wanted = ["cpu", "memory", "pids"];
    let offered = std::fs::read_to_string(unified.own.join("cgroup.controllers"))
        .or_else(|_| std::fs::read_to_string(unified.top.join("cgroup.controllers")))
        .unwrap_or_default();
    let controllers: BTreeSet<String> =
        offered.split_whitespace().filter(|c| wanted.contains(c)).map(str::to_owned).collect();
    if controllers.is_empty() {
        problems.push("cgroup v2 offers none of cpu, memory, pids here".into());
        return None;
    }
    let enable = |dir: &Path| v2::enable(dir, &controllers);
    match claim_v2(unified, place, enable, leaf::is_ours) {
        Ok(parent) => Some(v2::Tree { parent, controllers }),
        Err(error) => {
            problems.push(format!("cgroup v2: {error}"));
            None
        }
    }
}

/// A group with processes cannot hand controllers down. So this fails in our own group unless it is
/// the root, and one further up is tried. Where there is none for us, as in a container, our
/// processes go into a leaf of our own group first.
pub(super) fn claim_v2(
    unified: &Hierarchy,
    place: &Place<'_>,
    enable: impl Fn(&Path) -> io::Result<()>,
    is_ours: impl Fn(u32) -> bool,
) -> io::Result<PathBuf> {
    let make = |dir: &Path| {
        if let Some(parent) = dir.parent() {
            enable(parent)?;
        }
        make_dir(dir)?;
        enable(dir)
    };
    claim(unified, place, make).or_else(|first| {
        if !leaf::enter(&unified.own, is_ours)? {
            return Err(first);
        }
        let dir = unified.own.join(place.name);
        make(&dir).map(|()| dir)
    })
}

/// Tries to make the parent in our own group, then in each one above it. What is to outlive us is
/// as far up as may be: whoever ends our group, or starts us anew in it, must not meet it there.
fn claim(
    hierarchy: &Hierarchy,
    place: &Place<'_>,
    make: impl Fn(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let mut first_error = None;
    for above in places(hierarchy, place.lifetime) {
        let dir = above.join(place.name);
        match make(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) => {
                let _ = std::fs::remove_dir(&dir);
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Groups in which the parent may be, the best first.
pub(super) fn places(hierarchy: &Hierarchy, lifetime: Lifetime) -> Vec<&Path> {
    let mut all: Vec<&Path> =
        hierarchy.own.ancestors().take_while(|dir| dir.starts_with(&hierarchy.top)).collect();
    if lifetime.outlives_owner() {
        all.reverse();
    }
    all
}

pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Reads the hierarchies from the texts of `mountinfo` and `cgroup` of a process.
pub(super) fn hierarchies(mountinfo: &str, cgroup: &str) -> Vec<Hierarchy> {
    // Lines of `cgroup`: number, controllers, path.
    let own: Vec<(Vec<&str>, &str)> = cgroup
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers = fields.next()?.split(',').filter(|c| !c.is_empty()).collect();
            Some((controllers, fields.next()?))
        })
        .collect();
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let (Some(root), Some(top), Some(kind)) = (before.get(3), before.get(4), after.first())
        else {
            continue;
        };
        let options: Vec<&str> = after.get(2).map(|o| o.split(',').collect()).unwrap_or_default();
        let ours = match *kind {
            "cgroup2" => own.iter().find(|(controllers, _)| controllers.is_empty()),
            "cgroup" => own.iter().find(|(controllers, _)| {
                !controllers.is_empty() && controllers.iter().all(|c| options.contains(c))
            }),
            _ => None,
        };
        let Some((controllers, path)) = ours else { continue };
        // Where only a part of the hierarchy is mounted, as in containers, our path may lie outside
        // it or be shown relative to it; the mount's own top is the best guess then.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
        let top = PathBuf::from(top);
        let own = if below.as_os_str().is_empty() { top.clone() } else { top.join(below) };
        found.push(Hierarchy {
            controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
            own: if own.is_dir() || cfg!(test) { own } else { top.clone() },
            top,
        });
    }
    found
}
