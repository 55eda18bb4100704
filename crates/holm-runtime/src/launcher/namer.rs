//! Giving a blank its host name. PID 1 has given up the right to do that before its guest started,
//! so it is done from outside: root's launcher steps into the sandbox's UTS namespace and back; an
//! ordinary user has a say there only in the sandbox's user namespace, from which there is no way
//! back, so a child goes. Neither enters another namespace or runs anything of the sandbox's.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType};

use super::host::Host;
use super::slot::Slot;
use crate::failure::{Attempt, Failure};
use crate::helper;
use crate::step::{Step, perform};
use crate::sys;

impl Host {
    /// Names the sandbox, or starts a child that does, whose exit says whether it worked.
    pub(super) fn name(&self, slot: &mut Slot) -> Result<(), Failure> {
        let fault = self.settings.fault;
        let (Some(init), Some(order)) = (&slot.init, slot.order()) else {
            return Err(Failure::internal("no sandbox to name"));
        };
        let hostname = order.spec.hostname.as_bytes();
        if let Some(own) = &self.own_uts {
            perform(fault, Step::Name, || name_and_return(init, own, hostname))?;
            slot.nameless = false;
            return Ok(());
        }
        let pid = helper::start(c"holm-namer", &[init.as_raw_fd()], || {
            perform(fault, Step::Name, || name(init, hostname))
        });
        slot.namer = Some(pid.tried("start the namer")?);
        Ok(())
    }
}

/// This process's own UTS namespace, for one that may leave it.
pub(super) fn own_uts(machine_root: bool) -> Result<Option<OwnedFd>, Failure> {
    use rustix::fs::{Mode, OFlags};
    if !machine_root {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let own = rustix::fs::open("/proc/self/ns/uts", flags, Mode::empty());
    own.map(Some).tried("open the own UTS namespace")
}

fn name_and_return(init: &OwnedFd, own: &OwnedFd, hostname: &[u8]) -> Result<(), Failure> {
    let uts = ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    rustix::thread::move_into_thread_name_spaces(init.as_fd(), uts).tried("enter the namespace")?;
    let named = rustix::system::sethostname(hostname).tried("set the host name");
    let back = Some(LinkNameSpaceType::HostNameAndNISDomainName);
    if rustix::thread::move_into_link_name_space(own.as_fd(), back).is_err() {
        // Nothing may go on in a sandbox's namespace; what is left is removed by the owner.
        sys::process::exit_now(3);
    }
    named
}

fn name(init: &OwnedFd, hostname: &[u8]) -> Result<(), Failure> {
    let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    rustix::thread::move_into_thread_name_spaces(init.as_fd(), both)
        .tried("enter the namespaces")?;
    rustix::system::sethostname(hostname).tried("set the host name")
}
