//! User and group ids: an own range for each sandbox, or what an ordinary user may map.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::private::{self, Purpose};

/// Ids of one sandbox: those that exist inside, and one more ([`IdMap::owner`]).
pub const RANGE_LEN: u32 = 65_536;
/// Ids that exist inside.
pub const INSIDE: u32 = RANGE_LEN - 1;
/// First id that is ever given out: above what distributions give to users in /etc/subuid.
const FIRST: u32 = 0x1000_0000;
/// Ranges that are locked together, so that a holm holds few locks.
const BLOCK: u32 = 64;
/// Blocks in all; the last id stays below 2^31, which some file systems treat as the end.
const BLOCKS: u32 = (0x7000_0000 - FIRST) / RANGE_LEN / BLOCK;
/// Where all holms of a machine agree, whatever their other directories are.
pub const LOCK_DIR: &str = "/run/holm/idranges";

/// How ids inside relate to ids outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdMap {
    /// 65,535 ids from `start` on.
    Range {
        /// The host's id of root inside.
        start: u32,
    },
    /// Root inside is the user, the rest comes from the user's subordinate ids. Root is not one
    /// of the latter because the template's files, which the user owns, must be root's inside.
    Subordinate {
        /// The user's own ids.
        user: (u32, u32),
        /// First subordinate user and group id.
        start: (u32, u32),
        /// How many.
        len: u32,
    },
    /// Only the user, who is `sandbox` inside.
    Single {
        /// The user's own ids.
        user: (u32, u32),
    },
}

impl IdMap {
    /// True when only uid 1000 exists inside.
    #[must_use]
    pub fn is_single(self) -> bool {
        matches!(self, Self::Single { .. })
    }

    /// The user that makes the sandbox's user namespace, where that can be one of its own: what the
    /// kernel counts by user (inotify instances, pending signals, message queues, namespaces) is
    /// counted against the maker as well, and must reach neither the host's root nor another
    /// sandbox.
    #[must_use]
    pub fn owner(self) -> Option<u32> {
        match self {
            Self::Range { start } => Some(start + INSIDE),
            Self::Subordinate { .. } | Self::Single { .. } => None,
        }
    }

    /// Writes the map of a process in a new user namespace.
    pub fn apply(self, pid: i32) -> Result<(), Failure> {
        let write = |file: &str, text: String| {
            std::fs::write(format!("/proc/{pid}/{file}"), text).tried(&format!("write {file}"))
        };
        match self {
            Self::Range { start } => {
                write("uid_map", format!("0 {start} {INSIDE}"))?;
                write("gid_map", format!("0 {start} {INSIDE}"))
            }
            Self::Single { user: (uid, gid) } => {
                // Without it the kernel refuses an unprivileged gid_map.
                write("setgroups", "deny".into())?;
                write("uid_map", format!("1000 {uid} 1"))?;
                write("gid_map", format!("1000 {gid} 1"))
            }
            Self::Subordinate { user, start, len } => {
                let tool = |program: &str, own: u32, first: u32| {
                    let numbers = [pid.to_string(), "0".into(), own.to_string(), "1".into()];
                    let rest = ["1".into(), first.to_string(), len.to_string()];
                    let output = Command::new(program)
                        .args(numbers.iter().chain(&rest))
                        .output()
                        .tried(&format!("start {program}"))?;
                    if output.status.success() {
                        return Ok(());
                    }
                    let text = String::from_utf8_lossy(&output.stderr);
                    Err(Failure::internal(format!("{program}: {}", text.trim())))
                };
                tool("newuidmap", user.0, start.0)?;
                tool("newgidmap", user.1, start.1)
            }
        }
    }
}

/// True when we are root of the machine. Root of a user namespace, as in some containers, counts as
/// an ordinary user: it has neither loop devices nor id ranges to give.
#[must_use]
pub fn is_machine_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    rustix::process::geteuid().is_root() && whole
}

/// What an ordinary user may map: subordinate ids where the tools and a range are there.
#[must_use]
pub fn for_user() -> IdMap {
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let single = IdMap::Single { user };
    if !(on_path("newuidmap") && on_path("newgidmap")) {
        return single;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let passwd = read("/etc/passwd");
    let name = user_name(&passwd, user.0);
    let find = |text: &str| subordinate_range(text, name, user.0);
    match (find(&read("/etc/subuid")), find(&read("/etc/subgid"))) {
        (Some((uid, uids)), Some((gid, gids))) => IdMap::Subordinate {
            user,
            start: (uid, gid),
            // Inside must have 0 to 65534 at most, and at least `sandbox` and `nogroup`.
            len: uids.min(gids).min(RANGE_LEN - 1),
        },
        _ => single,
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Where tools are looked up when the environment says nothing, as in the launcher.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

/// First range of at least 1,000 ids in the text of /etc/subuid or /etc/subgid.
fn subordinate_range(text: &str, name: Option<&str>, uid: u32) -> Option<(u32, u32)> {
    text.lines().find_map(|line| {
        let mut fields = line.trim().split(':');
        let owner = fields.next()?;
        let start: u32 = fields.next()?.parse().ok()?;
        let len: u32 = fields.next()?.parse().ok()?;
        let ours = Some(owner) == name || owner.parse() == Ok(uid);
        (ours && len >= 1000).then_some((start, len))
    })
}

/// Gives out id ranges of blocks that no other holm on the machine has.
#[derive(Debug, Default)]
pub struct IdRanges {
    /// Locked blocks, each with its lock.
    blocks: Vec<(u32, File)>,
    /// Ranges not in use. The one unused for the longest time comes first.
    free: std::collections::VecDeque<u32>,
    /// Whose sandboxes keep their ids when no lock is held: the directory of an instance, or the data
    /// directory of a service.
    name: Option<PathBuf>,
}

impl IdRanges {
    /// For a launcher; with a name where sandboxes outlive it, the same for those that follow it.
    pub fn new(name: Option<PathBuf>) -> Self {
        Self { name, ..Self::default() }
    }

    /// Takes the range of a sandbox that an earlier launcher of the same name has made.
    pub fn take_over(&mut self, lock_dir: &Path, start: u32) -> Result<(), Failure> {
        let block = start.saturating_sub(FIRST) / RANGE_LEN / BLOCK;
        if !self.blocks.iter().any(|(ours, _)| *ours == block) {
            private::make(lock_dir, Purpose::Locks)?;
            let begin = std::time::Instant::now();
            // A child of the earlier launcher may hold it for a moment longer.
            while !self.try_block(lock_dir, block)? {
                if begin.elapsed() > std::time::Duration::from_secs(1) {
                    return Err(Failure::internal(format!("block {block} of ids is not free")));
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            self.free.extend(ranges(block));
        }
        self.free.retain(|range| *range != start);
        Ok(())
    }

    /// Takes a range.
    pub fn take(&mut self, lock_dir: &Path) -> Result<u32, Failure> {
        if self.free.is_empty() {
            let block = self.lock_block(lock_dir)?;
            self.free.extend(ranges(block));
        }
        self.free.pop_front().ok_or_else(|| Failure::internal("no id range in a new block"))
    }

    /// Gives a range back.
    pub fn give_back(&mut self, start: u32) {
        self.free.push_back(start);
    }

    fn lock_block(&mut self, dir: &Path) -> Result<u32, Failure> {
        private::make(dir, Purpose::Locks)?;
        for block in 0..BLOCKS {
            let ours = self.blocks.iter().any(|(ours, _)| *ours == block);
            if !ours && self.try_block(dir, block)? {
                return Ok(block);
            }
        }
        Err(Failure::of(
            DriverErrorKind::HostExhausted,
            "All ranges of user ids are in use on this host; end other sandboxes first.",
        ))
    }

    /// Takes a block unless it is another's: one who runs holds the lock, and one whose sandboxes may
    /// run without it has left its name in the file.
    fn try_block(&mut self, dir: &Path, block: u32) -> Result<bool, Failure> {
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(dir.join(block.to_string()))
            .tried("open an id range lock")?;
        // The file is never removed: a lock on a removed file would protect nothing.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        let mut name = Vec::new();
        file.read_to_end(&mut name).tried("read an id range lock")?;
        let own = self.name.as_ref().map(|dir| dir.as_os_str().as_bytes()).unwrap_or_default();
        if name != own {
            let other = Path::new(std::ffi::OsStr::from_bytes(&name));
            if !name.is_empty() && crate::instance::may_have_sandboxes(other) {
                return Ok(false);
            }
            file.set_len(0).tried("empty an id range lock")?;
            file.write_all_at(own, 0).tried("write an id range lock")?;
        }
        self.blocks.push((block, file));
        Ok(true)
    }
}

fn ranges(block: u32) -> impl Iterator<Item = u32> {
    (0..BLOCK).map(move |n| FIRST + (block * BLOCK + n) * RANGE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_holders_never_share_a_range() {
        let dir = std::env::temp_dir().join(format!("holm-idranges-{}", std::process::id()));
        let (mut one, mut two) = (IdRanges::default(), IdRanges::default());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..(BLOCK + 5) {
            assert!(seen.insert(one.take(&dir).unwrap()));
            assert!(seen.insert(two.take(&dir).unwrap()));
        }
        assert!(seen.iter().zip(seen.iter().skip(1)).all(|(a, b)| b - a >= RANGE_LEN));
        let back = *seen.first().unwrap();
        one.give_back(back);
        let blocks = one.blocks.len();
        let again: Vec<u32> = (0..BLOCK - 4).map(|_| one.take(&dir).unwrap()).collect();
        assert!(again.contains(&back), "a range that was given back is used again");
        assert_eq!(one.blocks.len(), blocks, "no new block while there are free ranges");
        drop((one, two));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn ids_of_a_service_stay_its_own_while_it_does_not_run() {
        let dir = std::env::temp_dir().join(format!("holm-idkept-{}", std::process::id()));
        let data = dir.join("data");
        let kept = data.join("instances/a/sandboxes");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("sandbox-0"), "").unwrap();
        let mut service = IdRanges::new(Some(data.clone()));
        let start = service.take(&dir).unwrap();
        drop(service);
        let mut other = IdRanges::default();
        let theirs = other.take(&dir).unwrap();
        assert!(theirs.abs_diff(start) >= BLOCK * RANGE_LEN, "{theirs} {start}");
        let mut again = IdRanges::new(Some(data));
        again.take_over(&dir, start).unwrap();
        again.take_over(&dir, start + RANGE_LEN).unwrap();
        for _ in 0..BLOCK - 2 {
            let next = again.take(&dir).unwrap();
            assert!(next >= start + 2 * RANGE_LEN && next < start + BLOCK * RANGE_LEN);
        }
        again.take_over(&dir, theirs).unwrap_err();
        drop(again);
        // Nothing of it is left: its ids are free.
        std::fs::remove_dir_all(&kept).unwrap();
        assert_eq!(IdRanges::default().take(&dir).unwrap(), start);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn finds_a_users_subordinate_range() {
        let text = "alice:100000:65536\n1007:300000:2000\nbob:1:10\nbob:500000:65536\n";
        for (name, uid, want) in [
            (Some("alice"), 1000, Some((100_000, 65_536))),
            (Some("carol"), 1007, Some((300_000, 2000))),
            (Some("bob"), 1001, Some((500_000, 65_536))),
            (None, 1002, None),
        ] {
            assert_eq!(subordinate_range(text, name, uid), want, "{name:?} {uid}");
        }
        assert_eq!(user_name("root:x:0:0::/:\nbob:x:1001:5::/:\n", 1001), Some("bob"));
    }
}
