//! Layers that tests make: as an unpacked image has them, without an image.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::rig::base;

/// Programs that scripts of these tests use.
const APPLETS: [&str; 22] = [
    "cat", "chmod", "cp", "echo", "find", "grep", "head", "id", "ln", "ls", "mkdir", "mknod", "mv",
    "readlink", "rm", "rmdir", "sh", "sort", "stat", "test", "touch", "wc",
];

/// One layer.
pub struct Tree(PathBuf);

impl Tree {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let tree = base().join(format!("layers/{}-{number}/tree", std::process::id()));
        fs::create_dir_all(&tree).unwrap();
        Self(tree)
    }

    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }

    /// Where a path of the image lies on the host.
    pub fn at(&self, path: &str) -> PathBuf {
        let at = self.0.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        at
    }

    pub fn dir(&self, path: &str) -> &Self {
        fs::create_dir_all(self.0.join(path)).unwrap();
        self
    }

    pub fn file(&self, path: &str, text: &str) -> &Self {
        fs::write(self.at(path), text).unwrap();
        self
    }

    pub fn link(&self, path: &str, to: impl AsRef<Path>) -> &Self {
        symlink(to, self.at(path)).unwrap();
        self
    }

    /// What a layer has of something that it deletes.
    pub fn deleted(&self, path: &str) -> &Self {
        let at = self.at(path);
        rustix::fs::mknodat(CWD, &at, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
        let dir = at.parent().unwrap();
        rustix::fs::setxattr(dir, "user.overlay.origin", b"", XattrFlags::empty()).unwrap();
        self
    }

    /// A directory that hides those below.
    pub fn opaque(&self, path: &str) -> &Self {
        self.dir(path);
        let dir = self.0.join(path);
        rustix::fs::setxattr(dir, "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
        self
    }

    /// A shell and what goes with it, and for the guest of these tests, which is no static
    /// program, its libraries.
    pub fn with_programs(self) -> Self {
        let busybox = self.at("bin/busybox");
        fs::copy("/bin/busybox", &busybox).expect("busybox-static must be installed");
        fs::set_permissions(&busybox, Permissions::from_mode(0o755)).unwrap();
        for name in APPLETS {
            self.link(&format!("bin/{name}"), "busybox");
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut libraries: Vec<_> =
            maps.lines().filter_map(|line| Some(line.split_once('/')?.1)).collect();
        libraries.retain(|path| path.contains(".so"));
        libraries.push("lib64/ld-linux-x86-64.so.2");
        libraries.sort_unstable();
        libraries.dedup();
        for path in libraries {
            let to = self.at(path);
            fs::copy(Path::new("/").join(path), &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o755)).unwrap();
        }
        self
    }
}
