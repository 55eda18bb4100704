//! Terminals for tests.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// A new terminal: our end, and the one of whoever sits at it.
pub fn open_terminal() -> (OwnedFd, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .expect("a terminal can be made");
    grantpt(&master).expect("it is ours");
    unlockpt(&master).expect("it is ours");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let name = name.to_str().expect("its name is text");
    let slave = File::options().read(true).write(true).open(name).expect("it can be opened");
    (master, slave)
}
