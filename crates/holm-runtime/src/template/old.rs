//! Removes templates and hiding layers that were replaced, once nobody can use them any more.
//!
//! A sandbox's root lies on them for as long as it lives, also sandboxes of other holms that share
//! the data directory. No age tells when those have ended, so each replaced directory gets a mark
//! that names the instances that lived when it was replaced. Later ones find the new one; when
//! none of the named lives any more (an instance takes its sandboxes along), it is removed.
//!
//! The mark is made before the instances are listed, and whoever uses a template looks for its
//! mark before it looks for the template: so either the user is on the list, or it sees the mark
//! and comes here first, under the lock, where the mark is taken away again.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::instance;

/// Names of what is removed here.
const OURS: [&str; 2] = ["host-v", "hide-"];

/// What is being removed, so that nobody finds half of it.
const REMOVED: &str = "draft-removed";

/// True when it was replaced; not to be used before [`prune`] was told that it is in use.
pub(super) fn is_marked(path: &Path) -> bool {
    mark(path).exists()
}

fn mark(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

/// Marks what is not in use and removes what nobody can use. The caller holds the lock of the
/// templates. What cannot be removed stays for the next time: nothing depends on it.
pub(super) fn prune(data_dir: &Path, dir: &Path, in_use: &BTreeSet<PathBuf>) {
    let list = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let all: Vec<PathBuf> = list
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            OURS.iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes()))
        })
        .map(|entry| entry.path())
        .collect();
    let mut replaced = Vec::new();
    for path in all {
        if in_use.contains(&path) {
            let _ = std::fs::remove_file(mark(&path));
        } else if is_marked(&path) || std::fs::write(mark(&path), "").is_ok() {
            replaced.push(path);
        }
    }
    if replaced.is_empty() {
        return;
    }
    // When another holm starts or sweeps at this moment, the marks stay as they are.
    let Some(living) = instance::living(data_dir) else { return };
    for path in replaced {
        let text = std::fs::read_to_string(mark(&path)).unwrap_or_default();
        match users(&text) {
            None => {
                let _ = std::fs::write(mark(&path), list_of(&living));
            }
            Some(mut users) => {
                if !users.any(|id| living.contains(id)) && remove(dir, &path).is_ok() {
                    let _ = std::fs::remove_file(mark(&path));
                }
            }
        }
    }
}

/// The list as it is kept; its last line shows that it is whole.
fn list_of(living: &BTreeSet<String>) -> String {
    living.iter().map(|id| format!("{id}\n")).chain([".\n".to_owned()]).collect()
}

/// The instances of a mark; `None` when they were not listed yet.
fn users(text: &str) -> Option<impl Iterator<Item = &str>> {
    text.strip_suffix(".\n").map(str::lines)
}

fn remove(dir: &Path, path: &Path) -> io::Result<()> {
    let removed = dir.join(REMOVED);
    // Left by a crash.
    remove_tree(&removed)?;
    std::fs::rename(path, &removed)?;
    // It is out of the way; what is left of it, the next removal tries again.
    let _ = remove_tree(&removed);
    Ok(())
}

/// Directories are copies of the host's, which may be read-only for their owner.
fn remove_tree(path: &Path) -> io::Result<()> {
    fn open_up(path: &Path) -> io::Result<()> {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open_up(&entry.path())?;
            }
        }
        Ok(())
    }
    match open_up(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.and_then(|()| std::fs::remove_dir_all(path)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::fs::FlockOperation;

    use super::*;

    /// A data directory with templates, and instances that live as long as their lock.
    struct Data(PathBuf);

    impl Data {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("holm-old-{name}-{}", std::process::id()));
            std::fs::create_dir_all(dir.join("instances")).unwrap();
            std::fs::create_dir_all(dir.join("templates")).unwrap();
            Self(dir)
        }

        fn template(&self, name: &str) -> PathBuf {
            let path = self.0.join("templates").join(name);
            std::fs::create_dir_all(path.join("etc/deep")).unwrap();
            std::fs::write(path.join("etc/passwd"), "x").unwrap();
            std::fs::set_permissions(path.join("etc"), std::fs::Permissions::from_mode(0o555))
                .unwrap();
            path
        }

        fn instance(&self, id: &str) -> Holder {
            let dir = self.0.join("instances").join(id);
            std::fs::create_dir_all(&dir).unwrap();
            Holder::new(&dir.join("lock"))
        }

        fn prune(&self, in_use: &[&PathBuf]) {
            let in_use = in_use.iter().map(|path| (*path).clone()).collect();
            prune(&self.0, &self.0.join("templates"), &in_use);
        }

        /// Prunes until `gone` is. A child that another test forks at this moment holds our locks
        /// until it executes, so that one time need not do.
        fn prune_until_gone(&self, in_use: &[&PathBuf], gone: &Path) {
            let began = std::time::Instant::now();
            while gone.exists() || is_marked(gone) {
                assert!(began.elapsed().as_secs() < 60, "{} stays", gone.display());
                self.prune(in_use);
            }
        }

        fn names(&self) -> Vec<String> {
            let list = std::fs::read_dir(self.0.join("templates")).unwrap();
            let mut names: Vec<_> =
                list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Data {
        fn drop(&mut self) {
            let _ = remove_tree(&self.0);
        }
    }

    /// Another process with an instance's lock, as its launcher has it: within one process that lock
    /// would be no hindrance.
    struct Holder(std::process::Child);

    impl Holder {
        fn new(lock: &Path) -> Self {
            let script = "import fcntl, sys\nf = open(sys.argv[1], 'w')\n\
                          fcntl.lockf(f, fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.read()";
            let mut child = std::process::Command::new("python3")
                .args(["-c", script])
                .arg(lock)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = [0];
            child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
            Self(child)
        }
    }

    impl Drop for Holder {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    fn locked(dir: &Path) -> File {
        let file = File::create(dir.join("lock")).unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    #[test]
    fn what_was_replaced_goes_with_its_last_user() {
        let data = Data::new("users");
        let first = data.template("host-v1-1");
        let one = data.instance("one");
        data.prune(&[&first]);
        assert_eq!(data.names(), ["host-v1-1"], "what is in use has no mark");
        let second = data.template("host-v1-2");
        let two = data.instance("two");
        data.prune(&[&second]);
        // It lives when the first is gone, and never used it.
        let _late = data.instance("late");
        for ended in [one, two] {
            data.prune(&[&second]);
            assert!(first.join("etc/passwd").exists());
            drop(ended);
        }
        data.prune_until_gone(&[&second], &first);
        assert_eq!(data.names(), ["host-v1-2"]);
        assert!(second.join("etc/passwd").exists());
    }

    #[test]
    fn what_comes_back_has_new_users() {
        let data = Data::new("back");
        let (first, second) = (data.template("hide-usr-1"), data.template("hide-usr-2"));
        data.prune(&[&second]);
        assert!(is_marked(&first));
        data.prune(&[&first]);
        assert!(!is_marked(&first) && is_marked(&second));
        let user = data.instance("user");
        data.prune(&[&second]);
        data.prune(&[&second]);
        assert!(first.exists(), "it has a user since");
        drop(user);
        data.prune_until_gone(&[&second], &first);
        assert_eq!(data.names(), ["hide-usr-2"]);
    }

    #[test]
    fn nothing_is_removed_while_instances_cannot_be_listed() {
        let data = Data::new("busy");
        let (first, second) = (data.template("host-v1-1"), data.template("host-v1-2"));
        let starting = locked(&data.0.join("instances"));
        data.prune(&[&second]);
        data.prune(&[&second]);
        assert!(is_marked(&first) && first.exists());
        drop(starting);
        let user = data.instance("user");
        data.prune(&[&second]);
        data.prune(&[&second]);
        assert!(first.exists(), "it was listed after the mark was made");
        drop(user);
        data.prune_until_gone(&[&second], &first);
        assert_eq!(data.names(), ["host-v1-2"]);
    }

    #[test]
    fn only_templates_and_layers_are_touched() {
        let data = Data::new("others");
        for name in ["draft-host", "other", "hostile"] {
            data.template(name);
        }
        std::fs::write(data.0.join("templates/hide-usr.json"), "{}").unwrap();
        data.template(REMOVED);
        let before = data.names();
        data.prune(&[]);
        data.prune(&[]);
        assert_eq!(data.names(), before);
        // A removal that broke off is finished by the next.
        let old = data.template("host-v0-1");
        data.prune_until_gone(&[], &old);
        assert_eq!(data.names(), ["draft-host", "hide-usr.json", "hostile", "other"]);
    }

    #[test]
    fn making_a_template_removes_the_one_before() {
        let data = Data::new("whole");
        let old = data.template("host-v1-0000000000000000");
        let user = data.instance("user");
        let made = super::super::ensure(&data.0).unwrap();
        assert!(is_marked(&old) && !is_marked(&made.skeleton));
        super::super::refresh(&data.0).unwrap();
        assert!(old.exists(), "its user lives");
        drop(user);
        let began = std::time::Instant::now();
        while old.exists() || is_marked(&old) {
            assert!(began.elapsed().as_secs() < 60, "it stays without a user");
            super::super::refresh(&data.0).unwrap();
        }
        let again = super::super::ensure(&data.0).unwrap();
        assert_eq!(again.skeleton, made.skeleton);
        for tree in &again.trees {
            assert!(tree.hide.as_ref().is_none_or(|hide| hide.is_dir()), "{tree:?}");
        }
        // One that is marked and fits again is taken back into use.
        std::fs::write(mark(&made.skeleton), ".\n").unwrap();
        super::super::ensure(&data.0).unwrap();
        assert!(made.skeleton.is_dir() && !is_marked(&made.skeleton));
    }
}
