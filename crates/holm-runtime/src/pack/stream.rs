//! The outer end of an archive that is being made.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use super::{Packed, Report};
use crate::driver::DriverError;
use crate::failure::{Attempt as _, Failure};

/// Longest report that is read.
const MAX_REPORT: u64 = 64 << 10;

/// What a sandbox has written, as an archive: to be read to its end, then to be asked whether it is
/// whole ([`Self::finish`]). The sandbox stands still until the archive is read; whoever drops this lets
/// it go on. Reading blocks.
#[derive(Debug)]
pub struct LayerStream {
    archive: File,
    report: File,
}

impl LayerStream {
    pub(crate) fn of(fds: Vec<OwnedFd>) -> Option<Self> {
        let [archive, report] = <[OwnedFd; 2]>::try_from(fds).ok()?;
        Some(Self { archive: archive.into(), report: report.into() })
    }

    /// What the archive has, after its last byte. Blocks until that is told.
    ///
    /// # Errors
    /// When the archive is not whole: the sandbox ended meanwhile, or something in it cannot be kept.
    pub fn finish(self) -> Result<Packed, DriverError> {
        // Whoever still writes writes to nobody.
        drop(self.archive);
        let mut text = Vec::new();
        self.report.take(MAX_REPORT).read_to_end(&mut text).tried("read a report")?;
        match serde_json::from_slice::<Report>(&text) {
            Ok(report) => Ok(report?),
            Err(_) => {
                let failure = Failure::internal("files of a sandbox were read without a report");
                Err(for_caller(failure).into())
            }
        }
    }
}

impl Read for LayerStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.archive.read(bytes)
    }
}

/// Nothing was to be made here, so what says that it could not be made is another text.
pub(crate) fn for_caller(mut failure: Failure) -> Failure {
    if failure.kind == crate::driver::DriverErrorKind::Internal {
        failure.public = "The sandbox's files could not be read; it may have ended.".into();
    }
    failure
}
