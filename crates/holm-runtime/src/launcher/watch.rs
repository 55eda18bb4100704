//! Watching PID 1s that are nobody's children: their descriptors say when they are gone.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::failure::{Attempt, Failure};

/// Any number of them behind one descriptor, which is readable when one is gone.
#[derive(Debug)]
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new() -> Result<Self, Failure> {
        epoll::create(CreateFlags::CLOEXEC).map(Self).tried("make a watch")
    }

    /// Tells of this one, once, under that number.
    pub(super) fn add(&self, init: &OwnedFd, number: u64) -> Result<(), Failure> {
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        epoll::add(&self.0, init, EventData::new_u64(number), flags).tried("watch PID 1")
    }

    /// Numbers of some that are gone.
    pub(super) fn gone(&self) -> Vec<u64> {
        let mut events = Vec::<Event>::with_capacity(64);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spare = rustix::buffer::spare_capacity(&mut events);
        // Interrupted: the descriptor stays readable.
        let _ = epoll::wait(&self.0, spare, Some(&now));
        events.iter().map(|event| event.data.u64()).collect()
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
