//! Image files: one of each size is formatted and kept, sandboxes get copies without a name.

use std::fs::{File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{BLOCK, disk_full, io_failure};
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::ids::DEFAULT_PATH;
use crate::options::DiskSize;

/// Less free space than this explains why mkfs failed.
const FULL: u64 = 64 << 10;

pub(super) fn find_mkfs() -> Option<PathBuf> {
    std::env::split_paths(DEFAULT_PATH).map(|dir| dir.join("mkfs.ext4")).find(|p| p.is_file())
}

/// The formatted image of a size, with an upper layer for each of `trees` laid out; made once and
/// kept. `format` makes its file system, with what is in a directory.
pub(super) fn template(
    data_dir: &Path,
    size: DiskSize,
    trees: &[&str],
    format: impl FnOnce(&Path, DiskSize, &Path) -> Result<(), Failure>,
) -> Result<File, Failure> {
    let dir = data_dir.join("images");
    let names = trees.join("+");
    let path = dir.join(format!("ext4-v2-{names}-{}-{}.img", size.bytes, size.inodes));
    if let Ok(file) = File::open(&path) {
        return Ok(file);
    }
    std::fs::create_dir_all(&dir)
        .map_err(|error| io_failure("make the directory of images", &error))?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(dir.join("lock"))
        .map_err(|error| io_failure("open the lock of images", &error))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).tried("lock the images")?;
    if let Ok(file) = File::open(&path) {
        return Ok(file);
    }
    let draft = dir.join("draft.img");
    let layout = dir.join("draft");
    let made = lay_out(&layout, trees).and_then(|()| make(&draft, size, &layout, format));
    let made = made.and_then(|()| {
        std::fs::rename(&draft, &path).map_err(|error| io_failure("keep an image", &error))
    });
    let _ = std::fs::remove_dir_all(&layout);
    if made.is_err() {
        // What cannot be removed now is overwritten by the next attempt.
        let _ = std::fs::remove_file(&draft);
    }
    made?;
    File::open(&path).tried("open an image")
}

fn lay_out(layout: &Path, trees: &[&str]) -> Result<(), Failure> {
    // Left by one that was killed.
    let _ = std::fs::remove_dir_all(layout);
    let make = || {
        std::fs::create_dir(layout)?;
        std::fs::set_permissions(layout, Permissions::from_mode(0o755))?;
        crate::upper::lay_out(layout, trees.iter().copied(), true)
    };
    make().map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => Failure::of(
            DriverErrorKind::IsolationUnavailable,
            "The host does not let this root give files to the users of a sandbox; inside a \
             container, holm needs one that may do so (CAP_CHOWN) and may mount (CAP_SYS_ADMIN).",
        )
        .because(error),
        _ => io_failure("lay an image out", &error),
    })
}

fn make(
    draft: &Path,
    size: DiskSize,
    layout: &Path,
    format: impl FnOnce(&Path, DiskSize, &Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let file = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(draft)
        .map_err(|error| io_failure("make an image", &error))?;
    file.set_len(size.bytes).map_err(|error| io_failure("size an image", &error))?;
    format(draft, size, layout)
}

/// Makes the file system of an image.
pub(super) fn format(image: &Path, size: DiskSize, layout: &Path) -> Result<(), Failure> {
    format_with(find_mkfs(), image, size, layout)
}

/// The same with a program that was looked for.
pub(super) fn format_with(
    program: Option<PathBuf>,
    image: &Path,
    size: DiskSize,
    layout: &Path,
) -> Result<(), Failure> {
    let missing = || {
        Failure::of(
            DriverErrorKind::IsolationUnavailable,
            "mkfs.ext4 is missing on the host, without which a sandbox has no disk; install \
             e2fsprogs.",
        )
    };
    let output = Command::new(program.ok_or_else(missing)?)
        .args(["-q", "-F", "-m", "0", "-b", &BLOCK.to_string(), "-N", &size.inodes.to_string()])
        .args(["-O", "^has_journal,^resize_inode,sparse_super2"])
        // All that it writes lies together at the start: less to copy for every sandbox.
        .args(["-E", "lazy_itable_init=1,nodiscard,packed_meta_blocks=1,num_backup_sb=0"])
        .arg("-d")
        .arg(layout)
        .arg(image)
        .output()
        // It went away since it was found, or may not be executed.
        .map_err(|error| missing().because(error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let why = format!("mkfs.ext4: {}: {}", output.status, text.trim());
    // Its own words differ by version; whether there is room does not.
    let full = rustix::fs::statvfs(image)
        .is_ok_and(|stat| stat.f_bavail.saturating_mul(stat.f_frsize) < FULL);
    if full {
        return Err(disk_full().because(why));
    }
    Err(Failure::of(
        DriverErrorKind::Internal,
        "The disk of a sandbox could not be formatted; the log has what mkfs.ext4 says. It is part \
         of e2fsprogs, which may need to be installed anew.",
    )
    .because(why))
}

/// A copy of the template, without a name.
pub(super) fn copy(data_dir: &Path, template: &mut File, size: DiskSize) -> Result<File, Failure> {
    let image = unnamed_file(data_dir).map_err(|error| io_failure("make an image file", &error))?;
    copy_sparse(template, &image, size.bytes)
        .map_err(|error| io_failure("copy the image", &error))?;
    Ok(image)
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
