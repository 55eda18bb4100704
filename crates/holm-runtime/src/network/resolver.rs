//! The file that says whom programs inside ask for names.

use std::os::fd::OwnedFd;

use super::Gate;
use crate::failure::{Attempt, Failure};
use crate::jail::image::own_file;

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
    match gate {
        Gate::Both => Ok(()),
        Gate::V4 | Gate::Missing(_) => write(gate, etc),
    }
}

/// The same where the template says nothing, in the place of what an image has there.
pub(crate) fn write(gate: &Gate, etc: &OwnedFd) -> Result<(), Failure> {
    let text = match gate {
        Gate::Both => BOTH,
        Gate::V4 => V4,
        Gate::Missing(_) => NONE,
    };
    own_file(etc, "resolv.conf", text).tried("write resolv.conf")
}
