//! The process between: makes the worker's namespaces, gives it its ids, and waits for its end.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::process::{WaitOptions, waitpid};

use super::inside::{self, Inside};
use super::{Order, id_map};
use crate::failure::{Attempt as _, Failure};
use crate::sys::process::{Forked, Parentage, exit_now, flag, fork_into};
use crate::{helper, sys};

/// Longest order that is read.
const MAX_ORDER: u32 = 1 << 20;

/// Runs `work` in a worker, and its report is the program's only output. Never returns; to be
/// called first in `main`, while there is one thread.
pub fn main(work: fn(Inside) -> String) -> ! {
    sys::fds::close_others(&[0, 1, 2]);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Names are for whoever looks at the process list.
    let _ = rustix::thread::set_name(c"holm-warden");
    if let Err(failure) = guard(work) {
        report(&Err(failure));
        exit_now(1);
    }
    exit_now(0)
}

pub(super) fn report(report: &Result<String, Failure>) {
    let text = serde_json::to_vec(report).unwrap_or_default();
    // When nobody listens any more there is nobody to tell.
    let _ = std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush());
}

fn guard(work: fn(Inside) -> String) -> Result<(), Failure> {
    helper::die_with_launcher()?;
    let order = read_order()?;
    // Before the namespaces: in them everybody is root of a part.
    let ids = id_map();
    let (wait, go) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).tried("make a pipe")?;
    let namespaces = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let namespaces = namespaces.iter().fold(0, |all, one| all | flag(*one));
    let forked = fork_into(namespaces, Parentage::Child, None).map_err(|errno| {
        crate::jail::unavailable(
            "The host gives no namespaces to a process that unpacks what is not trusted.",
            errno,
        )
    })?;
    match forked {
        Forked::Child => {
            drop(go);
            inside::run(&order, ids, wait, work)
        }
        Forked::Parent(pid, _) => {
            drop(wait);
            let applied = ids.apply(pid.as_raw_nonzero().get());
            if applied.is_ok() {
                // One that is gone already is waited for below.
                let _ = rustix::io::write(&go, b"go");
            }
            // Without a word it ends by itself.
            drop(go);
            let ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
            applied?;
            let (_, status) = ended.tried("wait for a worker")?.ok_or_else(lost)?;
            match status.terminating_signal() {
                // It has reported.
                None => Ok(()),
                Some(signal) => {
                    Err(Failure::internal(format!("a worker ended by signal {signal}")))
                }
            }
        }
    }
}

fn lost() -> Failure {
    Failure::internal("a worker was lost")
}

fn read_order() -> Result<Order, Failure> {
    // Not through the standard library's buffer, which would take input that is the worker's.
    let mut input = File::from(stdin()?);
    let mut length = [0; 4];
    input.read_exact(&mut length).tried("read an order")?;
    let length = u32::from_le_bytes(length);
    if length > MAX_ORDER {
        return Err(Failure::internal("an order is too long"));
    }
    let mut text = vec![0; length as usize];
    input.read_exact(&mut text).tried("read an order")?;
    serde_json::from_slice(&text).tried("read an order")
}

/// Standard input once more, so that it can be owned.
pub(super) fn stdin() -> Result<OwnedFd, Failure> {
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).tried("take standard input")
}
