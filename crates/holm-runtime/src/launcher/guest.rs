//! The guest's program in a sealed memory file: one for all sandboxes, so that its text is shared,
//! and nobody inside can change it.

use std::io::Write as _;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::failure::{Attempt, Failure};

/// Makes the file.
pub(super) fn sealed(program: &[u8]) -> Result<OwnedFd, Failure> {
    let file = create(rustix::fs::memfd_create::<&str>).tried("make the guest's memory file")?;
    let mut file = std::fs::File::from(file);
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
    fn nobody_can_change_it() {
        let fd = sealed(b"text").unwrap();
        let mut file = std::fs::File::from(fd);
        assert!(file.write_all(b"more").is_err());
        assert!(file.set_len(0).is_err());
    }
}
