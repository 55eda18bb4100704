//! The writable layer: a sparse image with its own file system, so that bytes and inodes end where
//! the sandbox's limit is. The image file never has a name, so nothing can be left behind.

use std::fs::{File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::ids::DEFAULT_PATH;
use crate::options::DiskSize;
use crate::step::{Fault, Step, perform};
use crate::sys;

/// Loop devices work in units of this; mkfs would take smaller ones for small images.
const BLOCK: u32 = 4096;
/// How often another process may take the loop device that we were about to take.
const LOOP_TRIES: usize = 64;

/// Which kind of writable layer this host gives, and why not the better one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Image on a loop device.
    Image,
    /// Memory file system, counted as memory.
    Memory {
        /// What an image would need.
        why: String,
    },
}

/// Finds out which kind can be had.
pub(crate) fn kind() -> Kind {
    let memory = |why: &str| Kind::Memory { why: why.into() };
    if !crate::ids::is_machine_root() {
        return memory("an ordinary user may not mount an image");
    }
    if let Err(errno) = open_loop_control() {
        return memory(&format!("/dev/loop-control: {errno}"));
    }
    if find_mkfs().is_none() {
        return memory("mkfs.ext4 is missing");
    }
    Kind::Image
}

fn open_loop_control() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn find_mkfs() -> Option<PathBuf> {
    std::env::split_paths(DEFAULT_PATH).map(|dir| dir.join("mkfs.ext4")).find(|p| p.is_file())
}

/// Refuses when the disk of the data directory is too full for one more sandbox.
pub(crate) fn check_reserve(data_dir: &Path, reserve: u64) -> Result<(), Failure> {
    let stat = rustix::fs::statvfs(data_dir).tried("ask for free space of the data directory")?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free >= reserve {
        return Ok(());
    }
    Err(Failure::of(
        DriverErrorKind::HostExhausted,
        "The host's disk is nearly full; end other sandboxes or free some space.",
    )
    .because(format!("{free} bytes free, reserve {reserve}")))
}

/// A writable layer that is not part of any sandbox yet.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Its file system, mounted nowhere.
    pub mount: OwnedFd,
    /// A directory of it.
    pub root: OwnedFd,
}

/// Makes one on an image: the steps [`Step::Image`] and [`Step::Disk`].
pub(crate) fn make(data_dir: &Path, size: DiskSize, fault: Option<Fault>) -> Result<Disk, Failure> {
    let trees = crate::template::host_trees();
    let trees: Vec<&str> = trees.iter().map(String::as_str).collect();
    let device = perform(fault, Step::Image, || attach_image(data_dir, size, &trees))?;
    perform(fault, Step::Disk, || {
        let mount = mount_detached(&device.1)?;
        let root = open_root(&mount)?;
        Ok(Disk { mount, root })
    })
}

/// A fresh image of that size, attached to a loop device. The device goes with its last user.
fn attach_image(
    data_dir: &Path,
    size: DiskSize,
    trees: &[&str],
) -> Result<(OwnedFd, PathBuf), Failure> {
    let mut template = template_image(data_dir, size, trees)?;
    let image = unnamed_file(data_dir).tried("make an image file")?;
    copy_sparse(&mut template, &image, size.bytes).tried("copy the image")?;
    attach(&image)
}

fn attach(image: &File) -> Result<(OwnedFd, PathBuf), Failure> {
    let control = open_loop_control().tried("open /dev/loop-control")?;
    // Many builders at once would take each other's device over and over; other programs may
    // still come between, for which there are the tries. The lock goes with the descriptor.
    rustix::fs::flock(&control, FlockOperation::LockExclusive)
        .tried("wait for /dev/loop-control")?;
    for _ in 0..LOOP_TRIES {
        let number = sys::loopdev::find_free(&control).map_err(no_loop)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(device) => device,
            // The device is being made or removed at this moment.
            Err(Errno::NOENT | Errno::NXIO | Errno::BUSY) => continue,
            Err(errno) => return Err(no_loop(errno)),
        };
        match sys::loopdev::attach(&device, image, BLOCK) {
            Ok(()) => return Ok((device, path)),
            // Another process took the device between the two calls.
            Err(Errno::BUSY | Errno::NXIO) => {}
            Err(errno) => return Err(no_loop(errno)),
        }
    }
    Err(no_loop(Errno::BUSY))
}

fn no_loop(errno: Errno) -> Failure {
    Failure::of(DriverErrorKind::HostExhausted, "The host has no free loop device for a disk.")
        .because(errno)
}

/// Mounts the device's file system nowhere: only the descriptor refers to it.
fn mount_detached(device: &Path) -> Result<OwnedFd, Failure> {
    let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).tried("open ext4")?;
    rustix::mount::fsconfig_set_string(&context, "source", device).tried("set the device")?;
    // No background zeroing of inode tables, which would fill the sparse image. No write barriers:
    // what a disposable disk holds need not survive a power cut.
    for option in ["noinit_itable", "nobarrier"] {
        rustix::mount::fsconfig_set_flag(&context, option).tried(option)?;
    }
    rustix::mount::fsconfig_create(&context).tried("mount the disk image")?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .tried("mount the disk image")
}

/// A directory of the file system, through which it is given up at the end.
fn open_root(mount: &impl AsFd) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(mount, ".", flags, Mode::empty()).tried("open the disk's root")
}

/// The formatted image of a size, with an upper layer for each of `trees` laid out; made once and
/// kept.
fn template_image(data_dir: &Path, size: DiskSize, trees: &[&str]) -> Result<File, Failure> {
    let dir = data_dir.join("images");
    let trees_text = trees.join("+");
    let path = dir.join(format!("ext4-v3-{trees_text}-{}-{}.img", size.bytes, size.inodes));
    if let Ok(file) = File::open(&path) {
        return Ok(file);
    }
    std::fs::create_dir_all(&dir).tried("make the directory of images")?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join("lock"))
        .tried("open the lock of images")?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).tried("lock the images")?;
    if let Ok(file) = File::open(&path) {
        return Ok(file);
    }
    let draft = dir.join("draft.img");
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .tried("make an image")?;
    file.set_len(size.bytes).tried("size an image")?;
    let layout = dir.join("draft");
    // Left by one that was killed.
    let _ = std::fs::remove_dir_all(&layout);
    std::fs::create_dir(&layout).tried("make the layout of an image")?;
    std::fs::set_permissions(&layout, Permissions::from_mode(0o755)).tried("open the layout")?;
    crate::upper::lay_out(&layout, trees.iter().copied(), true).tried("lay an image out")?;
    format(&draft, size, &layout)?;
    std::fs::remove_dir_all(&layout).tried("remove the layout of an image")?;
    std::fs::rename(&draft, &path).tried("keep an image")?;
    File::open(&path).tried("open an image")
}

fn format(image: &Path, size: DiskSize, layout: &Path) -> Result<(), Failure> {
    let program = find_mkfs().ok_or_else(|| Failure::internal("mkfs.ext4 is missing"))?;
    let output = Command::new(program)
        .args(["-q", "-F", "-m", "0", "-b", &BLOCK.to_string(), "-N", &size.inodes.to_string()])
        .args(["-O", "^has_journal,^resize_inode,sparse_super2"])
        // All that it writes lies together at the start: less to copy for every sandbox.
        .args(["-E", "lazy_itable_init=1,nodiscard,packed_meta_blocks=1,num_backup_sb=0"])
        .arg("-d")
        .arg(layout)
        .arg(image)
        .output()
        .tried("start mkfs.ext4")?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(Failure::internal(format!("mkfs.ext4: {}", text.trim())))
}

/// A file without a name in the data directory.
fn unnamed_file(data_dir: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(data_dir, flags, Mode::RUSR | Mode::WUSR) {
        Ok(fd) => Ok(File::from(fd)),
        // The file system has no unnamed files: it has a name for a moment.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
            let path = data_dir.join(format!("image-{}", std::process::id()));
            let file =
                File::options().create_new(true).read(true).write(true).mode(0o600).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Copies what is not a hole, or shares it where the file system can.
fn copy_sparse(from: &mut File, to: &File, len: u64) -> std::io::Result<()> {
    if rustix::fs::ioctl_ficlone(to, &*from).is_ok() {
        return Ok(());
    }
    to.set_len(len)?;
    let mut at = 0;
    while at < len {
        let start = match rustix::fs::seek(&*from, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            // No data after this.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, rustix::fs::SeekFrom::Hole(start))?;
        copy_range(from, to, start, end)?;
        at = end;
    }
    Ok(())
}

fn copy_range(from: &mut File, to: &File, start: u64, end: u64) -> std::io::Result<()> {
    let (mut source, mut target) = (start, start);
    while source < end {
        let want = usize::try_from(end - source).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(&*from, Some(&mut source), to, Some(&mut target), want) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(_) => return copy_by_hand(from, to, source, end),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &mut File, mut to: &File, start: u64, end: u64) -> std::io::Result<()> {
    from.seek(SeekFrom::Start(start))?;
    to.seek(SeekFrom::Start(start))?;
    let mut left = end - start;
    let mut buffer = vec![0_u8; 64 * 1024];
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        from.read_exact(&mut buffer[..want])?;
        to.write_all(&buffer[..want])?;
        left -= want as u64;
    }
    Ok(())
}
