//! `holm.guest.v1`: what envd lacks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bytes that a run keeps of each stream where the caller names no limit: 1 MiB.
pub const DEFAULT_OUTPUT_LIMIT: u64 = 1 << 20;
/// The most that a caller may ask to keep of each stream: 8 MiB.
pub const MAX_OUTPUT_LIMIT: u64 = 8 << 20;

/// Who runs a command or owns a file where nobody is named and the root is no image's. In the
/// protocol a name, `sandbox` (uid 1000) or `root`.
pub const DEFAULT_USER: &str = "sandbox";

/// Where the guest puts the certificates that an image's programs are to trust, if
/// [`Image::authority`] asks for that.
pub const TRUSTED: &str = "/etc/holm-ca-certificates.crt";

/// First call after the start: what the guest cannot know by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Configure {
    /// Host name inside.
    pub hostname: String,
    /// Variables of every command.
    pub env: BTreeMap<String, String>,
    /// Where commands start; `/workspace` when empty.
    pub workdir: String,
    /// Most processes and threads of one user's commands (RLIMIT_NPROC); 0 means no own limit.
    pub max_processes: u64,
    /// Of a root that is an image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
}

/// What the guest is to do in a root that is an image's: it looks at the image itself, because
/// nobody outside does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Image {
    /// Whose commands and files are meant where nobody is named: `name`, `uid`, `name:group` or
    /// `uid:gid`, as the image's own /etc/passwd and /etc/group have them; root when empty.
    pub user: String,
    /// A certificate (PEM) that programs are to trust besides those of the image; nothing is done
    /// when empty.
    pub authority: String,
}

/// Request of `Run`: one command, to its end, its output bounded.
///
/// A caller that closes the connection ends the command and all that it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunRequest {
    /// Program (looked up in the command's `PATH`) and arguments.
    pub argv: Vec<String>,
    /// Variables added to the sandbox's own.
    pub env: BTreeMap<String, String>,
    /// Working directory; the configured one where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `sandbox` or `root`; empty means `sandbox`.
    pub user: String,
    /// Milliseconds until the command and all that it started are killed; 0 means no limit.
    pub timeout_ms: u64,
    /// Bytes kept of standard output, head and tail; 0 means [`DEFAULT_OUTPUT_LIMIT`].
    pub stdout_limit: u64,
    /// The same for standard error.
    pub stderr_limit: u64,
    /// Fed to standard input, which then ends. Absent: standard input is at its end at once.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::encoding::bytes::option")]
    pub stdin: Option<Vec<u8>>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// By itself.
    #[default]
    Exited,
    /// By a signal that nobody here sent.
    Signaled,
    /// Killed at its deadline, with all that it started.
    TimedOut,
    /// Killed because the sandbox has used up its memory.
    OutOfMemory,
}

/// Response of `Run`.
///
/// A program that does not exist gives exit code 127, one that may not be executed 126, both with
/// the reason on `stderr`, as a shell would say it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunResponse {
    /// How it ended.
    pub outcome: Outcome,
    /// Exit code; 128 + signal after death by a signal.
    pub exit_code: i32,
    /// The signal's number, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Wall time in milliseconds.
    pub duration_ms: u64,
}

/// The kept part of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Captured {
    /// The beginning; everything where nothing was cut.
    #[serde(with = "crate::encoding::bytes")]
    pub head: Vec<u8>,
    /// The end, where something between was cut.
    #[serde(with = "crate::encoding::bytes")]
    pub tail: Vec<u8>,
    /// Bytes that the command wrote in all.
    pub total: u64,
}

impl Captured {
    /// Bytes that were dropped between head and tail.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.total.saturating_sub((self.head.len() + self.tail.len()) as u64)
    }
}

/// Request of `ListTree`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListTreeRequest {
    /// The directory (absolute, or relative to the working directory).
    pub path: String,
    /// `sandbox` or `root`; empty means `sandbox`.
    pub user: String,
    /// Also below it. Links are not followed.
    pub recursive: bool,
    /// Entries at most; 0 means 1,000, more than 10,000 is cut to that.
    pub limit: u32,
    /// Where the page before ended ([`ListTreeResponse::next`]); empty for the first page.
    pub after: String,
}

/// Response of `ListTree`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListTreeResponse {
    /// In the order of their paths, byte by byte within each directory.
    pub entries: Vec<TreeEntry>,
    /// Set when there is more: the `after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Directories that could not be read, at most 20 of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<String>,
}

/// One entry of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TreeEntry {
    /// Absolute path; bytes that are not UTF-8 appear as U+FFFD.
    pub path: String,
    /// `file`, `directory`, `symlink`, `other`.
    pub r#type: String,
    /// Bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Response of `PUT /holm/v1/file`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FileWritten {
    /// Absolute path.
    pub path: String,
    /// Bytes written.
    pub size: u64,
}

/// Response of `Configure`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Configured {
    /// What the guest measured since its start, before anything else ran in the sandbox.
    pub measured: Probe,
}

/// What the guest measures about its own confinement. Namespaces are `ns/NAME` inode numbers,
/// which the host compares with its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// `user`, `mnt`, `pid`, `net`, `ipc`, `uts`, `cgroup` → inode number.
    pub namespaces: BTreeMap<String, u64>,
    /// Lines of `uid_map`: inside, outside, count.
    pub uid_map: Vec<(u32, u32, u32)>,
    /// `Seccomp:` of `/proc/self/status` as a command sees it (2 = filter).
    pub seccomp: u32,
    /// `NoNewPrivs:` of a command.
    pub no_new_privs: bool,
    /// Effective capabilities of a command of user `sandbox`.
    pub cap_eff: u64,
    /// Bounding set of a command.
    pub cap_bnd: u64,
    /// Landlock level that was applied to a command; 0 means none.
    pub landlock_abi: u32,
    /// Type of the file system below the writable layer is not visible; its size in bytes is.
    pub disk_bytes: u64,
    /// Its inodes.
    pub disk_inodes: u64,
    /// RLIMIT_NPROC of a command; 0 means none.
    pub max_processes: u64,
    /// True when the network namespace has no interface but loopback.
    pub loopback_only: bool,
    /// True when PID 1 cannot be traced or dumped.
    pub init_non_dumpable: bool,
}
