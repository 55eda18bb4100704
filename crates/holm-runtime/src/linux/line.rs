//! The way to the launcher: a socket, the process that we started, and what it says first.

use crate::channel::Channel;
use crate::driver::DriverErrorKind;
use crate::failure::{Attempt, Failure};
use crate::message::{Created, Event, Facts};

/// A launcher that is ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub channel: Channel,
    pub pid: u32,
    pub facts: Facts,
    /// What it has taken over.
    pub found: Vec<Created>,
    /// What it would have taken over but was dead.
    pub ended: Vec<Event>,
}

/// Waits for the first words of the launcher that `channel` leads to, which no other will follow.
pub(super) fn only(channel: Channel, pid: u32) -> Result<Ready, Failure> {
    match channel.receive::<Event>().tried("wait for the launcher")? {
        Some((Event::Ready(facts), _)) => {
            Ok(Ready { channel, pid, facts, found: Vec::new(), ended: Vec::new() })
        }
        Some((Event::Unusable(failure), _)) => Err(failure),
        _ => Err(gone()),
    }
}

/// Waits for the keeper's next launcher. One that dies before it is ready is followed by another.
pub(super) fn kept(keeper: &Channel) -> Result<Ready, Failure> {
    loop {
        let (pid, fds) = match keeper.receive::<Event>().tried("wait for a launcher")? {
            Some((Event::Launcher { pid }, fds)) => (pid, fds),
            Some((Event::Unusable(failure), _)) => return Err(failure),
            _ => return Err(gone()),
        };
        let Some(fd) = fds.into_iter().next() else { return Err(gone()) };
        if let Some(ready) = first_words(Channel::from_fd(fd), pid)? {
            return Ok(ready);
        }
    }
}

/// None when it died meanwhile.
fn first_words(channel: Channel, pid: u32) -> Result<Option<Ready>, Failure> {
    let (mut facts, mut found, mut ended) = (None, Vec::new(), Vec::new());
    loop {
        match channel.receive::<Event>() {
            Ok(Some((Event::Ready(all), _))) => facts = Some(all),
            Ok(Some((Event::Found(sandbox), _))) => found.push(sandbox),
            Ok(Some((event @ Event::Exited { .. }, _))) => ended.push(event),
            Ok(Some((Event::FoundAll, _))) => break,
            Ok(Some((Event::Unusable(failure), _))) => return Err(failure),
            Ok(Some(_)) => return Err(Failure::internal("a launcher that is not ready")),
            Ok(None) | Err(_) => return Ok(None),
        }
    }
    let facts = facts.ok_or_else(|| Failure::internal("a launcher without facts"))?;
    Ok(Some(Ready { channel, pid, facts, found, ended }))
}

fn gone() -> Failure {
    Failure::of(DriverErrorKind::LauncherGone, "The launcher process has ended while it started.")
}
