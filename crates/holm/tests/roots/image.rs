//! Images: an OCI layout of layers that a test fills, and its import.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::common::Home;

/// Programs that scripts of these tests use.
const APPLETS: [&str; 24] = [
    "cat", "chmod", "cp", "echo", "env", "find", "grep", "head", "id", "ls", "mkdir", "mount",
    "mv", "pwd", "readlink", "rm", "rmdir", "sh", "sort", "stat", "test", "touch", "true", "wc",
];

/// An image that is being made.
pub struct Image {
    dir: PathBuf,
    layers: usize,
    config: Value,
}

impl Image {
    /// Without anything in it, and without a layer.
    pub fn new(home: &Home) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let dir = home.dir.join(format!("image-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&dir).unwrap();
        Self { dir, layers: 0, config: json!({}) }
    }

    /// With a layer that has a shell and a few programs, and nothing else.
    pub fn with_shell(home: &Home) -> Self {
        let mut image = Self::new(home);
        image.layer();
        image.program("bin/busybox");
        for name in APPLETS {
            image.link(&format!("bin/{name}"), "/bin/busybox");
        }
        image
    }

    /// Begins another layer above.
    pub fn layer(&mut self) -> &mut Self {
        self.layers += 1;
        fs::create_dir(self.top()).unwrap();
        fs::set_permissions(self.top(), Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn top(&self) -> PathBuf {
        self.dir.join(format!("layer-{}", self.layers))
    }

    /// Where a path of the uppermost layer is while it is being made.
    pub fn at(&self, path: &str) -> PathBuf {
        let at = self.top().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        at
    }

    pub fn dir(&mut self, path: &str) -> &mut Self {
        fs::create_dir_all(self.top().join(path)).unwrap();
        self
    }

    pub fn file(&mut self, path: &str, text: &str) -> &mut Self {
        fs::write(self.at(path), text).unwrap();
        self
    }

    pub fn link(&mut self, path: &str, to: impl AsRef<Path>) -> &mut Self {
        symlink(to, self.at(path)).unwrap();
        self
    }

    pub fn pipe(&mut self, path: &str) -> &mut Self {
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, self.at(path), kind, mode, 0).unwrap();
        self
    }

    /// One static program.
    pub fn program(&mut self, path: &str) -> &mut Self {
        let at = self.at(path);
        fs::copy("/bin/busybox", &at).expect("busybox-static must be installed");
        self.mode(path, 0o755)
    }

    pub fn mode(&mut self, path: &str, mode: u32) -> &mut Self {
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
        self
    }

    /// What the image says of its programs.
    pub fn says(&mut self, config: Value) -> &mut Self {
        self.config = config;
        self
    }

    /// Makes a template of it.
    pub fn import(&self, home: &Home, name: &str) {
        let layout = self.layout();
        if let Some(uid) = home.own_uid {
            chown(&self.dir, Some(uid), Some(uid)).unwrap();
        }
        let layout = layout.display().to_string();
        let exit = home.holm(&["template", "import", name, &layout]);
        assert_eq!(exit.code(), Some(0), "{}", exit.err());
        fs::remove_dir_all(&self.dir).unwrap();
    }

    /// Writes it as others do.
    fn layout(&self) -> PathBuf {
        let layout = self.dir.join("layout");
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let blob = |path: &Path| {
            let sum = Command::new("sha256sum").arg(path).output().unwrap();
            let hex = String::from_utf8(sum.stdout[..64].to_vec()).unwrap();
            let size = fs::metadata(path).unwrap().len();
            fs::rename(path, blobs.join(&hex)).unwrap();
            (format!("sha256:{hex}"), size)
        };
        let text = |value: &Value| {
            let path = layout.join("draft");
            fs::write(&path, value.to_string()).unwrap();
            blob(&path)
        };
        let (mut layers, mut ids) = (Vec::new(), Vec::new());
        for number in 1..=self.layers {
            let tar = layout.join("draft.tar");
            let made = Command::new("tar")
                .args(["--numeric-owner", "--owner=0", "--group=0", "-cf"])
                .arg(&tar)
                .arg("-C")
                .arg(self.dir.join(format!("layer-{number}")))
                .arg(".")
                .status();
            assert!(made.unwrap().success(), "tar");
            let (digest, size) = blob(&tar);
            let kind = "application/vnd.oci.image.layer.v1.tar";
            layers.push(json!({"mediaType": kind, "digest": digest, "size": size}));
            ids.push(digest);
        }
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let (config, config_size) = text(&json!({
            "architecture": arch, "os": "linux", "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": ids},
        }));
        let config_kind = "application/vnd.oci.image.config.v1+json";
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let (manifest, manifest_size) = text(&json!({
            "schemaVersion": 2, "mediaType": kind, "layers": layers,
            "config": {"mediaType": config_kind, "digest": config, "size": config_size},
        }));
        let index = json!({
            "schemaVersion": 2,
            "manifests": [{"mediaType": kind, "digest": manifest, "size": manifest_size}],
        });
        fs::write(layout.join("index.json"), index.to_string()).unwrap();
        fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        layout
    }
}

/// What a command prints in a sandbox of its own on a template, and that it succeeds.
pub fn run(home: &Home, template: &str, options: &[&str], command: &[&str]) -> String {
    let mut all = vec!["run", "--template", template];
    all.extend(options);
    all.push("--");
    all.extend(command);
    let exit = home.holm(&all);
    assert_eq!(exit.code(), Some(0), "{template} {command:?}: {}{}", exit.out(), exit.err());
    exit.out()
}

/// The user inside that an image's root is in this home.
pub fn root_is(home: &Home) -> &'static str {
    if home.users().contains(&"root") { "0" } else { "1000" }
}
