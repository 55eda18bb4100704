//! Folders that the benchmark needs, removed at its end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::Result;

/// A scratch folder with data for holm and an OCI bundle whose root shows the host's `/usr`, as
/// holm's `host` template does.
#[derive(Debug)]
pub struct Workspace {
    /// Everything lies below.
    pub root: PathBuf,
}

impl Workspace {
    /// Makes the folders.
    pub fn new() -> Result<Self> {
        let root = std::env::temp_dir().join(format!("holm-bench-{}", std::process::id()));
        let this = Self { root };
        this.fill().map_err(|error| format!("{}: {error}", this.root.display()))?;
        Ok(this)
    }

    /// The bundle of crun and runc.
    pub fn bundle(&self) -> PathBuf {
        self.root.join("bundle")
    }

    fn fill(&self) -> std::io::Result<()> {
        let rootfs = self.bundle().join("rootfs");
        for folder in ["usr", "proc", "dev", "tmp", "etc"] {
            fs::create_dir_all(rootfs.join(folder))?;
        }
        for link in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{link}"), rootfs.join(link))?;
        }
        fs::write(self.bundle().join("config.json"), config().to_string())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// `true` with all namespaces, an id range, memory and process limits, and a read-only root.
fn config() -> serde_json::Value {
    let namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let namespaces: Vec<_> =
        namespaces.iter().map(|kind| serde_json::json!({ "type": kind })).collect();
    serde_json::json!({
        "ociVersion": "1.0.2",
        "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/bin/true"],
            "env": ["PATH=/usr/bin"], "cwd": "/", "noNewPrivileges": true,
            "capabilities": {"bounding": [], "effective": [], "permitted": []}},
        "root": {"path": "rootfs", "readonly": true},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "mode=755", "size=65536k"]},
            {"destination": "/usr", "type": "bind", "source": "/usr",
             "options": ["rbind", "ro", "nosuid", "nodev"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["size=64m"]}],
        "linux": {"namespaces": namespaces,
            "resources": {"memory": {"limit": 268_435_456}, "pids": {"limit": 64}}}
    })
}
