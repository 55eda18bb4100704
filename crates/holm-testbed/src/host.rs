//! A machine with nothing but a network and mounts of its own: a process that holds both.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network; its host's end is not its.
#[derive(Debug, Clone)]
pub struct Network(Arc<File>);

impl Network {
    /// Moves the calling thread, and what it will start, into this network. The thread's mounts
    /// stay those of everybody.
    pub fn enter(&self) -> Result<(), String> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("a network cannot be entered: {error}"))
    }
}

/// Held as long as this lives; the process ends by itself when whoever made it has ended.
pub struct Host {
    holder: Child,
}

/// Tells the holders from other processes, so that one can look for leftovers.
const NAME: &str = "holm-testbed";

impl Host {
    /// An empty one.
    pub fn new() -> Result<Self, String> {
        // It waits for the end of its input, which comes with our end, however that comes.
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", "echo; read -r _", NAME]);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut holder = spawned.map_err(|error| format!("unshare: {error}"))?;
        let output = holder.stdout.take().ok_or("no output")?;
        let this = Self { holder };
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        match read {
            Ok(1..) => Ok(this),
            other => Err(format!("unshare --net --mount: {other:?}")),
        }
    }

    /// The process that holds it.
    pub fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// Its network.
    pub fn network(&self) -> Result<Network, String> {
        let path = format!("/proc/{}/ns/net", self.pid());
        let file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        Ok(Network(Arc::new(file)))
    }

    /// What has to stand before a command line so that it runs here.
    pub fn prefix(&self) -> Vec<String> {
        let pid = self.pid();
        [
            "nsenter".to_owned(),
            format!("--net=/proc/{pid}/ns/net"),
            format!("--mount=/proc/{pid}/ns/mnt"),
        ]
        .to_vec()
    }

    /// A command that runs here.
    pub fn command(&self, program: &str) -> Command {
        let prefix = self.prefix();
        let mut command = Command::new(&prefix[0]);
        command.args(&prefix[1..]).arg(program);
        command
    }

    /// Runs commands of `ip`, one a line.
    pub fn ip(&self, batch: &str) -> Result<(), String> {
        self.feed(self.command("ip").args(["-batch", "-"]), batch)
    }

    /// Gives this host alone an `/etc/resolv.conf`; may be called again.
    pub fn resolvers(&self, text: &str) -> Result<(), String> {
        // A file without a name elsewhere: nothing has to be removed. Written in place once it is
        // mounted, so that a program that looks for changes sees one.
        let script = "if ! mountpoint -q /etc/resolv.conf; then\n\
                        mount -t tmpfs tmpfs /mnt && : >/mnt/resolv.conf &&\n\
                        mount --bind /mnt/resolv.conf /etc/resolv.conf && umount -l /mnt || exit 1\n\
                      fi\n\
                      cat >/etc/resolv.conf";
        self.feed(self.command("sh").args(["-c", script]), text)
    }

    fn feed(&self, command: &mut Command, input: &str) -> Result<(), String> {
        let spawned = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| format!("nsenter: {error}"))?;
        let mut stdin = child.stdin.take().ok_or("no input")?;
        let written = stdin.write_all(input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        written.map_err(|error| format!("{error}: {said}"))?;
        if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}")) }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Its end is all that is wanted; the namespaces and the cable go with it.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
