//! What is kept on disk of a sandbox that may outlive its launcher: enough to take it over, or to
//! remove it.
//!
//! One file for each, in its instance's directory for them. It is there before anything of the sandbox is,
//! names PID 1 before that can become the guest, and goes when nothing is left. Only processes can
//! be outlived: after a restart of the host nothing of a sandbox is there, so the files need not
//! be safe against a power cut.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::cgroup::Group;
use crate::driver::Shape;
use crate::ids::IdMap;
use crate::network::Gate;
use crate::sys;

/// Of another form than this nothing is taken over.
const VERSION: u32 = 1;

/// The smallest page of a kernel. Most records fit into one.
const PAGE: usize = 4096;

/// What is longer than this is no record.
const LONGEST: u64 = 1 << 20;

/// What begins the name of a file that is not whole yet.
const DRAFT: &str = ".draft-";

/// A sandbox, or a blank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    version: u32,
    /// The run of the host's kernel in which it was made.
    boot: String,
    /// Whose it is; nobody's is a blank.
    pub sandbox: Option<String>,
    pub shape: Shape,
    pub ids: IdMap,
    pub cpus: Vec<usize>,
    pub group: Option<Group>,
    pub socket: PathBuf,
    /// A record of before there were gates says nothing of one.
    #[serde(default)]
    pub gate: Gate,
    pub init: Option<Init>,
}

/// A process that is not our child: its number, and when it started, because numbers come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Init {
    pub pid: i32,
    /// In ticks since the host started.
    start: u64,
}

impl Init {
    /// A process that lives; the caller holds a descriptor of it, so that the number is its own.
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start: start_time(pid)? })
    }

    /// A descriptor of it, if it lives.
    pub fn open(self) -> Option<std::os::fd::OwnedFd> {
        let fd = rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Compared after the process is held: from then on the number cannot change hands.
        (start_time(self.pid)? == self.start).then_some(fd)
    }
}

impl Kept {
    /// A new one, of which nothing is there yet.
    pub fn new(shape: Shape, ids: IdMap, group: Option<Group>, socket: PathBuf) -> Self {
        Self {
            version: VERSION,
            boot: BOOT_ID.clone(),
            sandbox: None,
            shape,
            ids,
            cpus: Vec::new(),
            group,
            socket,
            gate: Gate::default(),
            init: None,
        }
    }

    /// True when what it names can still be there.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == *BOOT_ID
    }

    /// Writes it at once or not at all.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        if text.len() <= PAGE {
            // The kernel does not stop in the middle of a page, also for SIGKILL. In place, because
            // a file that takes another's name may be written to the disk at once.
            text.resize(PAGE, b' ');
            let mut options = File::options();
            let file = options.create(true).truncate(false).write(true).open(path)?;
            if file.metadata()?.len() <= text.len() as u64 {
                return file.write_all_at(&text, 0);
            }
        }
        let name = path.file_name().unwrap_or_default();
        let mut draft = std::ffi::OsString::from(DRAFT);
        draft.push(name);
        let draft = path.with_file_name(draft);
        std::fs::write(&draft, text)?;
        std::fs::rename(draft, path)
    }
}

/// Everything that is kept in a directory: the file, and what it says unless it is of another form
/// or not whole. What cannot be read at this moment is an error: who takes it for nothing would end
/// sandboxes that run.
pub(crate) fn all(dir: &Path) -> io::Result<Vec<(PathBuf, Option<Kept>)>> {
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let kept = read(&path)?
            .and_then(|text| serde_json::from_slice(&text).ok())
            .filter(|kept: &Kept| kept.version == VERSION && !is_draft(&path));
        found.push((path, kept));
    }
    Ok(found)
}

/// A record's text. `None` for what cannot be one: whoever reads it must not wait, or be led elsewhere.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut text = Vec::new();
    let length = file.take(LONGEST + 1).read_to_end(&mut text)?;
    Ok((length as u64 <= LONGEST).then_some(text))
}

/// Kills every PID 1 that is kept in a directory. True when none is there any more.
pub(crate) fn end_all(dir: &Path) -> bool {
    let Ok(kept) = all(dir) else { return false };
    let here = kept.into_iter().filter_map(|(_, kept)| kept).filter(Kept::is_of_this_boot);
    let inits = here.filter_map(|kept| kept.init?.open());
    let mut gone = true;
    for init in inits.filter(|init| !sys::process::is_gone(init)) {
        gone = false;
        // Gone in between is as good.
        let _ = rustix::process::pidfd_send_signal(init, Signal::KILL);
    }
    gone
}

fn is_draft(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DRAFT.as_bytes()))
}

/// Names this run of the host's kernel.
static BOOT_ID: LazyLock<String> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
});

/// The parent of a process. None where there is no such process.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    parent_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 4.
fn parent_of(stat: &str) -> Option<i32> {
    after_name(stat)?.nth(1)?.parse().ok()
}

fn start_time(pid: i32) -> Option<u64> {
    start_time_of(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22.
fn start_time_of(stat: &str) -> Option<u64> {
    after_name(stat)?.nth(19)?.parse().ok()
}

/// The fields from the third on. The second one, the name, may hold anything, also blanks and
/// brackets.
fn after_name(stat: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    use super::*;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("holm-kept-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn kept() -> Kept {
        let shape =
            Shape { vcpus: 1, memory_bytes: 2, disk_bytes: 3, disk_inodes: 4, max_processes: 5 };
        Kept::new(shape, IdMap::Range { start: 7 }, None, "/run/x.sock".into())
    }

    #[test]
    fn what_is_written_is_read_and_what_is_no_record_is_told_apart() {
        let dir = dir("all");
        let mut one = kept();
        one.sandbox = Some("sbx_1".into());
        one.write(&dir.join("sandbox-1")).unwrap();
        one.sandbox = Some("another".into());
        one.write(&dir.join("sandbox-1")).unwrap();
        // Too long for one page, and short again.
        let mut long = Kept { sandbox: Some("x".repeat(PAGE)), ..kept() };
        long.write(&dir.join("sandbox-0")).unwrap();
        long.write(&dir.join("sandbox-5")).unwrap();
        long.sandbox = Some("x".into());
        long.write(&dir.join("sandbox-5")).unwrap();
        std::fs::write(dir.join(".draft-sandbox-2"), serde_json::to_vec(&one).unwrap()).unwrap();
        std::fs::write(dir.join("sandbox-3"), "{\"version\":").unwrap();
        let newer = Kept { version: VERSION + 1, ..kept() };
        newer.write(&dir.join("sandbox-4")).unwrap();
        // Nobody waits for a writer, and no link leads elsewhere.
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("sandbox-6"), Mode::RUSR).unwrap();
        std::os::unix::fs::symlink(dir.join("sandbox-1"), dir.join("sandbox-7")).unwrap();
        let mut found = all(&dir).unwrap();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let seen: Vec<_> = found
            .iter()
            .map(|(path, kept)| {
                let name = path.file_name().unwrap().to_str().unwrap();
                (name, kept.as_ref().and_then(|kept| Some(kept.sandbox.as_ref()?.len())))
            })
            .collect();
        let want = [
            (".draft-sandbox-2", None),
            ("sandbox-0", Some(PAGE)),
            ("sandbox-1", Some(7)),
            ("sandbox-3", None),
            ("sandbox-4", None),
            ("sandbox-5", Some(1)),
            ("sandbox-6", None),
            ("sandbox-7", None),
        ];
        assert_eq!(seen, want);
        assert!(kept().is_of_this_boot());
        assert!(!Kept { boot: "another".into(), ..kept() }.is_of_this_boot());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_number_that_was_given_out_again_is_no_process_of_ours() {
        let own = i32::try_from(std::process::id()).unwrap();
        let init = Init::of(own).unwrap();
        assert!(init.open().is_some());
        assert!(Init { start: init.start + 1, ..init }.open().is_none());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let init = Init::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(init.open().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(init.open().is_none());
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        let fields: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        for name in ["sh", "a b", ") 1 2 (", "((", "))"] {
            let stat = format!("9 ({name}) {}", fields.join(" "));
            assert_eq!((parent_of(&stat), start_time_of(&stat)), (Some(4), Some(22)));
        }
        for bad in ["", "9 (x", "9 (x) 3 4", "9 (x) a b"] {
            assert_eq!(start_time_of(bad), None, "{bad}");
        }
    }
}
