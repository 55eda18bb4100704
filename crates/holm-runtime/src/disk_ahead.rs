//! A disk that is made while the launcher still gets ready, by a child of its own: for a launcher
//! of one sandbox, which is waited for. The builder takes it over.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::channel::Channel;
use crate::disk::{self, Disk};
use crate::driver::Shape;
use crate::failure::{Attempt, Failure};
use crate::helper;
use crate::step::Fault;

/// A disk on its way, from which one builder takes it. What nobody takes goes with the channel.
#[derive(Debug)]
pub(crate) struct DiskAhead {
    channel: Channel,
    shape: Shape,
}

/// What the child says.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// Descriptors: the mount, its root.
    Made,
    Failed(Failure),
}

impl DiskAhead {
    /// Starts the child. None when that fails, which costs time and nothing else.
    pub(crate) fn start(data_dir: &Path, shape: Shape, fault: Option<Fault>) -> Option<Self> {
        let (ours, theirs) = Channel::pair().ok()?;
        helper::start(c"holm-disk", &[theirs.as_raw_fd()], || {
            make(data_dir, shape, fault, &theirs);
            Ok(())
        })
        .ok()?;
        Some(Self { channel: ours, shape })
    }

    /// True when it is one for that shape.
    pub(crate) fn fits(&self, shape: Shape) -> bool {
        self.shape == shape
    }

    /// Waits for it.
    pub(crate) fn take(&self) -> Result<Disk, Failure> {
        match self.channel.receive().tried("wait for the disk")? {
            Some((Word::Made, fds)) => {
                let fds = <[OwnedFd; 2]>::try_from(fds);
                let [mount, root] = fds.map_err(|_| Failure::internal("half a disk"))?;
                Ok(Disk { mount, root })
            }
            Some((Word::Failed(failure), _)) => Err(failure),
            None => Err(Failure::internal("the process that makes the disk died")),
        }
    }
}

impl AsRawFd for DiskAhead {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.channel.as_raw_fd()
    }
}

fn make(data_dir: &Path, shape: Shape, fault: Option<Fault>, channel: &Channel) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let made = helper::die_with_launcher().and_then(|()| disk::make(data_dir, shape.into(), fault));
    // A launcher that is gone, or wants no disk any more, takes none.
    let _ = match made {
        Ok(disk) => channel.send(&Word::Made, &[disk.mount.as_fd(), disk.root.as_fd()]),
        Err(failure) => channel.send(&Word::Failed(failure), &[]),
    };
}
