//! A helper that gives a blank its host name. PID 1 has given up the right to do that before its
//! guest started, so a child of the launcher steps into the sandbox's user and UTS namespaces,
//! sets the name and is gone. It enters no other namespace and runs nothing of the sandbox's.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::thread::ThreadNameSpaceType;

use super::host::Host;
use super::slot::Slot;
use crate::failure::{Attempt, Failure};
use crate::step::{Step, perform};
use crate::sys;
use crate::sys::process::{Forked, Parentage, fork_into};

impl Host {
    /// Starts the helper; its exit says whether it worked.
    pub(super) fn start_namer(&self, slot: &mut Slot) -> Result<(), Failure> {
        let (Some(init), Some(order)) = (&slot.init, slot.order()) else {
            return Err(Failure::internal("no sandbox to name"));
        };
        match fork_into(0, Parentage::Child, None).tried("start the namer")? {
            Forked::Child => {
                sys::signals::reset();
                sys::fds::close_others(&[0, 1, 2, init.as_raw_fd()]);
                let _ = rustix::thread::set_name(c"holm-namer");
                let fault = self.settings.fault;
                let outcome = perform(fault, Step::Name, || name(init, &order.spec.hostname));
                sys::process::exit_now(outcome.map_or(1, |()| 0))
            }
            Forked::Parent(pid, _) => {
                slot.namer = Some(pid.as_raw_nonzero().get());
                Ok(())
            }
        }
    }
}

/// Without the user namespace an ordinary user would have no say over the other one.
fn name(init: &OwnedFd, hostname: &str) -> Result<(), Failure> {
    let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    rustix::thread::move_into_thread_name_spaces(init.as_fd(), both)
        .tried("enter the namespaces")?;
    rustix::system::sethostname(hostname.as_bytes()).tried("set the host name")
}
