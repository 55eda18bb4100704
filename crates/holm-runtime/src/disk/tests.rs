//! What goes wrong with disks at run time: each failure has its class and its mend, and leaves
//! nothing.
#![allow(clippy::print_stdout, reason = "skips are reported on standard output")]

use std::collections::VecDeque;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, mount};

use super::*;
use crate::sys;

const SIZE: DiskSize = DiskSize { bytes: 16 << 20, inodes: 1024 };
const TREES: &[&str] = &["usr"];

/// A data directory that goes away with the test.
struct Data(PathBuf);

impl Data {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("holm-disk-{}-{number}", std::process::id());
        let data = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&data.0).unwrap();
        data
    }

    /// All files, without the lock, which stays.
    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for dir in [self.0.clone(), self.0.join("images")] {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    found.push(entry.file_name().into_string().unwrap());
                }
            }
        }
        found.retain(|name| name != "lock");
        found
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The failure is of that class and tells the mend.
fn check(what: &str, failure: &Failure, kind: DriverErrorKind, mend: &str, cause: &str) {
    assert_eq!(failure.kind, kind, "{what}: {failure:?}");
    assert!(failure.public.contains(mend), "{what}: {failure:?}");
    assert!(!failure.public.contains("/tmp"), "{what}: no path of the host: {failure:?}");
    assert!(failure.internal.contains(cause), "{what}: {failure:?}");
}

/// A stand-in for the kernel: each call answers from its list, and then that all is well.
fn claim(
    find: &[Errno],
    open: &[Errno],
    bind: &[Errno],
) -> (Result<(i32, PathBuf), Failure>, usize) {
    let queue = |list: &[Errno]| -> VecDeque<Errno> { list.iter().copied().collect() };
    let (mut find, mut open, mut bind) = (queue(find), queue(open), queue(bind));
    let mut asked = 0;
    let answer = device::claim(
        || {
            asked += 1;
            find.pop_front().map_or(Ok(7), Err)
        },
        |_path| open.pop_front().map_or(Ok(1), Err),
        |_device| bind.pop_front().map_or(Ok(()), Err),
    );
    (answer, asked)
}

#[test]
fn races_for_a_loop_device_are_tried_again() {
    let races = [Errno::BUSY, Errno::NXIO, Errno::AGAIN, Errno::INTR];
    for (find, open, bind) in [
        (&races[..], &[][..], &[][..]),
        (&[], &[Errno::NOENT, Errno::NXIO, Errno::BUSY], &[]),
        (&[], &[], &races),
        (&[Errno::AGAIN], &[Errno::NOENT], &[Errno::BUSY]),
    ] {
        let (answer, asked) = claim(find, open, bind);
        assert_eq!(answer.unwrap(), (1, PathBuf::from("/dev/loop7")));
        assert_eq!(asked, find.len() + open.len() + bind.len() + 1);
    }
}

#[test]
fn a_loop_device_that_cannot_be_had_is_explained() {
    use DriverErrorKind::{HostExhausted, IsolationUnavailable};
    let always = |errno| [errno; device::TRIES + 1];
    let none = "end other sandboxes";
    for (what, find, open, bind, kind, mend) in [
        ("find", &always(Errno::BUSY)[..], &[][..], &[][..], HostExhausted, none),
        ("find", &always(Errno::AGAIN), &[], &[], HostExhausted, none),
        ("find", &[Errno::NOSPC], &[], &[], HostExhausted, none),
        ("find", &[Errno::NOMEM], &[], &[], HostExhausted, none),
        ("open", &[], &always(Errno::NXIO), &[], HostExhausted, none),
        ("open", &[], &always(Errno::NOENT), &[], IsolationUnavailable, "/dev/loop*"),
        ("open", &[], &[Errno::PERM], &[], IsolationUnavailable, "/dev/loop-control"),
        ("bind", &[], &[], &always(Errno::BUSY), HostExhausted, none),
        ("bind", &[], &[], &[Errno::ACCESS], IsolationUnavailable, "/dev/loop-control"),
        ("bind", &[], &[], &[Errno::NOTTY], IsolationUnavailable, "Linux 6.1"),
        ("bind", &[], &[], &[Errno::INVAL], IsolationUnavailable, "Linux 6.1"),
    ] {
        let (answer, asked) = claim(find, open, bind);
        check(what, &answer.unwrap_err(), kind, mend, &format!("{what} a loop device"));
        let tries = find.len().max(open.len()).max(bind.len()).min(device::TRIES);
        assert_eq!(asked, tries, "{what}: what is no race is not tried again");
    }
}

#[test]
fn an_image_that_cannot_be_formatted_is_explained_and_not_kept() {
    let data = Data::new();
    let plain = data.0.join("no-program");
    std::fs::write(&plain, "not a program").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let missing = DriverErrorKind::IsolationUnavailable;
    for (what, program, kind, mend, cause) in [
        ("not there", None, missing, "install e2fsprogs", ""),
        ("gone since", Some("/no/mkfs.ext4".into()), missing, "install e2fsprogs", "No such file"),
        ("no program", Some(plain.clone()), missing, "install e2fsprogs", "denied"),
        (
            "failing",
            Some("/bin/false".into()),
            DriverErrorKind::Internal,
            "what mkfs.ext4 says",
            "exit status: 1",
        ),
    ] {
        let format =
            |image: &Path, size, layout: &Path| image::format_with(program, image, size, layout);
        let failure = image::template(&data.0, SIZE, TREES, format).unwrap_err();
        check(what, &failure, kind, mend, cause);
        assert_eq!(data.files(), ["no-program"], "{what}");
    }
    // The next attempt works.
    if image::find_mkfs().is_some() {
        image::template(&data.0, SIZE, TREES, image::format).unwrap();
        assert_eq!(data.files().len(), 2);
    }
}

#[test]
fn errors_of_the_hosts_disk_are_told_apart() {
    let of = |errno: Errno| io_failure("copy the image", &errno.into());
    let full = DriverErrorKind::HostExhausted;
    for (errno, kind, mend) in [
        (Errno::NOSPC, full, "free some space"),
        (Errno::DQUOT, full, "free some space"),
        (Errno::FBIG, full, "ulimit -f"),
        (Errno::IO, DriverErrorKind::Internal, "the log"),
    ] {
        check("copy", &of(errno), kind, mend, "copy the image");
    }
    for (errno, kind, mend) in [
        (Errno::NODEV, DriverErrorKind::IsolationUnavailable, "modprobe ext4"),
        (Errno::PERM, DriverErrorKind::IsolationUnavailable, "CAP_SYS_ADMIN"),
        (Errno::NOMEM, full, "end other sandboxes"),
        (Errno::NOSPC, full, "end other sandboxes"),
        (Errno::INVAL, DriverErrorKind::Internal, "`images`"),
        (Errno::UCLEAN, DriverErrorKind::Internal, "`images`"),
        (Errno::LOOP, DriverErrorKind::Internal, "the log"),
    ] {
        check("mount", &unmountable("mount it", errno), kind, mend, "mount it");
    }
}

/// Runs in a thread with mounts of its own, below a memory file system of that many KiB as data
/// directory. False when that cannot be had.
fn on_a_small_disk(kib: u32, test: impl Fn(&Data) + Send + Sync) {
    if !crate::ids::is_machine_root() || image::find_mkfs().is_none() {
        println!("SKIP root: images on a full disk");
        return;
    }
    let data = Data::new();
    let ran = std::thread::scope(|scope| {
        let work = || {
            sys::thread::leave_mounts_and_name().unwrap();
            let private = rustix::mount::MountPropagationFlags::PRIVATE
                | rustix::mount::MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private).unwrap();
            let options = std::ffi::CString::new(format!("size={kib}k")).unwrap();
            mount("holm-test", &data.0, "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
            test(&data);
        };
        scope.spawn(work).join()
    });
    if let Err(panic) = ran {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn no_room_for_the_template_of_disks() {
    on_a_small_disk(16, |data| {
        let failure = attach_image(&data.0, SIZE, TREES).unwrap_err();
        check("mkfs", &failure, DriverErrorKind::HostExhausted, "free some space", "mkfs.ext4");
        assert_eq!(data.files(), [""; 0]);
    });
}

#[test]
fn no_room_for_a_copy() {
    on_a_small_disk(256, |data| {
        let mut template = image::template(&data.0, SIZE, TREES, image::format).unwrap();
        let before = data.files();
        let filler = std::fs::File::create(data.0.join("filler")).unwrap();
        let block = vec![1; 4096];
        while std::io::Write::write_all(&mut &filler, &block).is_ok() {}
        let failure = image::copy(&data.0, &mut template, SIZE).unwrap_err();
        check("copy", &failure, DriverErrorKind::HostExhausted, "free some space", "the image");
        drop(filler);
        std::fs::remove_file(data.0.join("filler")).unwrap();
        assert_eq!(data.files(), before);
        // A child that another test forks at this moment still holds the files until it executes.
        let began = std::time::Instant::now();
        while let Err(failure) = image::copy(&data.0, &mut template, SIZE) {
            assert!(began.elapsed().as_secs() < 60, "there is no room again: {failure:?}");
            std::thread::yield_now();
        }
        assert_eq!(data.files(), before, "copies have no name");
    });
}

#[test]
fn a_damaged_image_is_explained_and_its_device_released() {
    on_a_small_disk(4096, |data| {
        if device::open_control().is_err() {
            println!("SKIP root: a damaged image: no loop devices here");
            return;
        }
        let image = std::fs::File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(data.0.join("image"))
            .unwrap();
        image.set_len(SIZE.bytes).unwrap();
        let (device, path) = device::attach(&image).unwrap();
        let failure = mount_detached(&path).unwrap_err();
        check("mount", &failure, DriverErrorKind::Internal, "`images`", "mount the disk image");
        let bound = || {
            let name = path.file_name().unwrap().to_str().unwrap();
            let file = format!("/sys/block/{name}/loop/backing_file");
            let bound = std::fs::read_to_string(file).unwrap_or_default();
            bound.contains(data.0.file_name().unwrap().to_str().unwrap())
        };
        drop(device);
        let began = std::time::Instant::now();
        while bound() {
            assert!(began.elapsed().as_secs() < 60, "the device stays bound");
            std::thread::yield_now();
        }
    });
}
