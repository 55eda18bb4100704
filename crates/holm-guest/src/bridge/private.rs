//! Where the sockets of a kernel are until somebody has connected to them.

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

/// A directory that its user alone can use, and that goes away with this.
#[derive(Debug)]
pub struct Private(PathBuf);

impl Private {
    /// A new one.
    ///
    /// # Errors
    /// When it can be made nowhere.
    pub fn new(home: &str) -> io::Result<Self> {
        let name = format!(".holm-kernel-{}", std::process::id());
        let mut last = io::Error::other("no directory");
        // The name of a socket has a hundred bytes at most.
        for parent in ["/tmp", "/dev/shm", "/var/tmp", home] {
            let path = Path::new(parent).join(&name);
            // One of a kernel that was killed at its start.
            let _ = std::fs::remove_dir_all(&path);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Writes the file that tells a kernel where to listen.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn connection_file(&self) -> io::Result<PathBuf> {
        let path = self.0.join("kernel.json");
        let file = json!({
            "transport": "ipc", "ip": self.0.join("k"), "key": "",
            "signature_scheme": "hmac-sha256", "shell_port": 1, "iopub_port": 2, "stdin_port": 3,
            "control_port": 4, "hb_port": 5,
        });
        let mut out = std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        out.write_all(file.to_string().as_bytes())?;
        Ok(path)
    }

    /// Where the kernel listens: 1 answers, 2 tells everybody, 4 takes what is urgent.
    pub fn socket(&self, number: u8) -> PathBuf {
        self.0.join(format!("k-{number}"))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
