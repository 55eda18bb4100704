//! The file that says whom programs inside ask for names.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::Gate;
use crate::failure::{Attempt, Failure};

/// Of the template: every question goes to the gate, whomever it is sent to, and these two are
/// nobody else's addresses.
pub(crate) const BOTH: &str = "\
# Answered by the egress gate, which decides what this sandbox may reach.
nameserver 10.0.2.3
nameserver fd00::3
";

const V4: &str = "\
# Answered by the egress gate, which decides what this sandbox may reach.
nameserver 10.0.2.3
";

const NONE: &str = "# This sandbox has no network, so there is no name server.\n";

/// Below the new root: where the gate is not what the template says, the file says what is there.
/// `etc` was found inside that root.
pub(crate) fn correct(gate: &Gate, etc: &OwnedFd) -> Result<(), Failure> {
    let text = match gate {
        Gate::Both => return Ok(()),
        Gate::V4 => V4,
        Gate::Missing(_) => NONE,
    };
    match rustix::fs::unlinkat(etc, "resolv.conf", AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno).tried("remove the template's resolv.conf"),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(etc, "resolv.conf", flags, Mode::from_raw_mode(0o644))
        .tried("make resolv.conf")?;
    rustix::io::write(&file, text.as_bytes()).tried("write resolv.conf")?;
    Ok(())
}
