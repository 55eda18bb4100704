//! The file that the guest is executed from: one for all sandboxes, so that its text is shared, and
//! nobody inside can change it.
//!
//! As the machine's root it lies in the data directory, from one start to the next, and is executed
//! through a read-only mount of that file alone: to write two megabytes into memory would be a tenth
//! of what the first sandbox takes. Inside it belongs to a user that is not there. An ordinary user
//! owns it inside as well, and can make no such mount; there it is a sealed file in memory.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags};

use crate::failure::{Attempt, Failure};
use crate::sys;

/// The guest.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// Its program.
    pub program: &'static [u8],
    /// What tells this program from those of other builds. None for one that is not to be kept.
    pub build: Option<&'static str>,
}

impl Guest {
    /// Opens the file, and makes it where it is missing.
    pub(super) fn open(&self, data_dir: &Path, machine_root: bool) -> Result<OwnedFd, Failure> {
        let build = self.build.filter(|_| machine_root);
        match build.map(|build| kept(self.program, build, data_dir)) {
            Some(Ok(file)) => Ok(file),
            // No room, no such mounts, or nothing may be executed there.
            Some(Err(_)) | None => sealed(self.program),
        }
    }
}

/// How the names of kept files begin.
const KEPT: &str = "guest-";

/// The file in the data directory, which only we can change.
fn kept(program: &[u8], build: &str, data_dir: &Path) -> std::io::Result<OwnedFd> {
    let path = data_dir.join(format!("{KEPT}{build}"));
    let is_whole =
        |file: &File| file.metadata().is_ok_and(|meta| meta.len() == program.len() as u64);
    match File::open(&path) {
        Ok(file) if is_whole(&file) => {}
        _ => keep(program, &path, data_dir)?,
    }
    Ok(alone(&path)?)
}

/// Writes it, and removes those of other builds: who runs one still has it.
fn keep(program: &[u8], path: &Path, data_dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(data_dir)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(KEPT) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let draft = data_dir.join(format!("{KEPT}draft-{}", std::process::id()));
    // Readable, as what a process executes and cannot read counts as more secret than it is.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o555).open(&draft)?;
    // The usual mask of ours takes more than is wanted here.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o555))?;
    file.write_all(program)?;
    // What has its name has its content, also after a loss of power.
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// The file as the root of a read-only mount of its own: neither its path nor a way to change it is
/// there for whoever is executed from it.
fn alone(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = rustix::mount::open_tree(CWD, path, flags)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    sys::mounts::set_attributes(&mount, attributes, None, false)?;
    if rustix::fs::fstatvfs(&mount)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(Errno::ACCESS);
    }
    let again = format!("/proc/self/fd/{}", mount.as_raw_fd());
    rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Makes the file in memory.
fn sealed(program: &[u8]) -> Result<OwnedFd, Failure> {
    let file = create(rustix::fs::memfd_create::<&str>).tried("make the guest's memory file")?;
    let mut file = File::from(file);
    file.write_all(program).tried("write the guest")?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).tried("seal the guest")?;
    Ok(file.into())
}

/// `MFD_EXEC` says that the file is to be executed, which newer kernels may insist on and kernels
/// before 6.3 do not know.
fn create(
    memfd: impl Fn(&'static str, MemfdFlags) -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd("holm-guest", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd("holm-guest", flags),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn old_kernels_are_asked_without_the_new_flag() {
        let asked = RefCell::new(Vec::new());
        let old_kernel = |_: &'static str, flags: MemfdFlags| {
            asked.borrow_mut().push(flags.contains(MemfdFlags::EXEC));
            if flags.contains(MemfdFlags::EXEC) {
                return Err(Errno::INVAL);
            }
            rustix::fs::memfd_create("t", flags)
        };
        create(old_kernel).unwrap();
        assert_eq!(*asked.borrow(), [true, false]);
        assert_eq!(create(|_, _| Err(Errno::MFILE)).unwrap_err(), Errno::MFILE);
    }

    #[test]
    fn what_is_kept_is_found_again_and_made_anew_where_it_is_not_whole() {
        if !crate::ids::is_machine_root() {
            return;
        }
        let dir = std::env::temp_dir().join(format!("holm-guest-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let guest =
            |program, build| Guest { program, build: Some(build) }.open(&dir, true).unwrap();
        let names = || {
            let mut names: Vec<_> =
                std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let read = |fd: OwnedFd| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
            assert_eq!(link, Path::new("/"), "no path of the host");
            let writable = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let error = OpenOptions::new().write(true).open(writable).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EROFS), "also for root");
            std::io::read_to_string(File::from(fd)).unwrap()
        };
        assert_eq!(read(guest(b"one", "a")), "one");
        // By its name alone.
        assert_eq!(read(guest(b"two", "a")), "one");
        std::fs::write(dir.join("guest-a"), "").unwrap();
        assert_eq!(read(guest(b"two", "a")), "two");
        assert_eq!(read(guest(b"six", "b")), "six");
        assert_eq!(names(), ["guest-b"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn nobody_can_change_it() {
        let fd = sealed(b"text").unwrap();
        let mut file = File::from(fd);
        assert!(file.write_all(b"more").is_err());
        assert!(file.set_len(0).is_err());
    }
}
