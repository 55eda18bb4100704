//! The peers, each as the command that a user would type.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;
use crate::workspace::Workspace;

/// One way to run `true` in a sandbox.
pub struct Peer {
    /// Short name.
    pub name: &'static str,
    command: Box<dyn Fn(usize) -> Command>,
}

impl Peer {
    /// Runs it once, to its end.
    pub fn once(&self, round: usize) -> Result<()> {
        finish(self.name, &mut (self.command)(round))
    }
}

/// `sh -c true` without any isolation: what `run_command` is compared with.
pub fn plain_spawn() -> Result<()> {
    finish("plain spawn", Command::new("/bin/sh").args(["-c", "true"]))
}

fn finish(name: &str, command: &mut Command) -> Result<()> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() && output.stdout.is_empty() {
        return Ok(());
    }
    Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// All peers.
pub fn all(holm: &Path, at: &Workspace) -> Result<Vec<Peer>> {
    for (program, package) in [("bwrap", "bubblewrap"), ("crun", "crun"), ("runc", "runc")] {
        let found = ["/usr/bin", "/usr/sbin"].iter().any(|d| Path::new(d).join(program).exists());
        if !found {
            return Err(format!("{program} is missing: install the Debian package {package}"));
        }
    }
    let holm = holm.to_path_buf();
    let data = at.root.clone();
    Ok(vec![
        Peer { name: "bwrap", command: Box::new(|_| bwrap()) },
        oci("crun", at),
        oci("runc", at),
        Peer {
            name: "holm run",
            command: Box::new(move |_| {
                let mut command = Command::new(&holm);
                command.env("HOLM_DATA_DIR", data.join("data"));
                command.env("HOLM_RUNTIME_DIR", data.join("run"));
                command.args(["run", "--", "true"]);
                command
            }),
        },
    ])
}

fn bwrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
    for link in ["bin", "lib", "lib64", "sbin"] {
        command.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true"]);
    command
}

fn oci(name: &'static str, at: &Workspace) -> Peer {
    let (bundle, state) = (at.bundle(), at.root.join(name));
    Peer {
        name,
        command: Box::new(move |round| {
            let mut command = Command::new(name);
            command.arg("--root").arg(&state).arg("run").arg("--bundle").arg(&bundle);
            command.arg(format!("holm-bench-{}-{round}", std::process::id()));
            command
        }),
    }
}
