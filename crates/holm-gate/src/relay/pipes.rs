//! Pipes through which the kernel moves bytes between two sockets. They are taken for as long as
//! bytes are on their way and kept for the next, so that waiting connections have none.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Pipes at one time; with more bytes on their way some are copied instead.
pub(crate) const PIPES: usize = 256;
/// Pipes of one sandbox, whose programs may be slow to read.
const SHARE: usize = 64;
/// How many are kept while nobody needs them.
const SPARE: usize = 32;
/// Bytes of one, where the kernel gives that many.
const SIZE: usize = 512 * 1024;

/// All pipes of a process.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    spare: Mutex<Vec<(OwnedFd, OwnedFd)>>,
    used: AtomicUsize,
}

/// One, to be given back empty.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    ends: Option<(OwnedFd, OwnedFd)>,
    /// Bytes inside. A pipe that has some is not given to others.
    pub(super) held: usize,
    pipes: &'a Pipes,
    share: &'a AtomicUsize,
}

impl Pipes {
    /// An empty one, if there is one for a sandbox that has `share` of them.
    pub(super) fn take<'a>(&'a self, share: &'a AtomicUsize) -> Option<Pipe<'a>> {
        let used = self.used.fetch_add(1, Ordering::Relaxed);
        let mine = share.fetch_add(1, Ordering::Relaxed);
        // Its end gives both places back.
        let mut pipe = Pipe { ends: None, held: 0, pipes: self, share };
        if used >= PIPES || mine >= SHARE {
            return None;
        }
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        pipe.ends = spare.or_else(open);
        pipe.ends.is_some().then_some(pipe)
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

fn open() -> Option<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    // A user who has many pipes gets smaller ones.
    let _as_it_is = fcntl_setpipe_size(&write, SIZE);
    Some((read, write))
}

impl Pipe<'_> {
    pub(super) fn ends(&self) -> Option<(&OwnedFd, &OwnedFd)> {
        self.ends.as_ref().map(|(read, write)| (read, write))
    }
}

impl Drop for Pipe<'_> {
    fn drop(&mut self) {
        self.pipes.used.fetch_sub(1, Ordering::Relaxed);
        self.share.fetch_sub(1, Ordering::Relaxed);
        let Some(ends) = self.ends.take().filter(|_| self.held == 0) else { return };
        let mut spare = self.pipes.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_bounded_and_kept() {
        let pipes = Pipes::default();
        let shares: [AtomicUsize; PIPES / SHARE + 1] = Default::default();
        let mut taken = Vec::new();
        for share in &shares[..PIPES / SHARE] {
            taken.extend((0..SHARE).map(|_| pipes.take(share).expect("one")));
            assert!(pipes.take(share).is_none());
        }
        assert!(pipes.take(&shares[PIPES / SHARE]).is_none());
        drop(taken);
        assert_eq!((pipes.used(), pipes.spare.lock().expect("them").len()), (0, SPARE));
        assert!(shares.iter().all(|share| share.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn a_pipe_with_bytes_is_not_given_to_others() {
        let (pipes, share) = (Pipes::default(), AtomicUsize::new(0));
        let mut pipe = pipes.take(&share).expect("one");
        pipe.held = 1;
        drop(pipe);
        assert_eq!((pipes.used(), pipes.spare.lock().expect("them").len()), (0, 0));
    }
}
