//! From a sandbox to here.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use holm_client::rest::Rest;
use holm_client::{Bytes, Response};
use tokio::sync::mpsc;

use super::super::said;
use super::meter::Meter;
use super::{broken, unpack};
use crate::exit::Failure;
use crate::output;
use crate::settings::Remote;

/// Parts that wait for the disk at most.
const AHEAD: usize = 8;
/// How long a service may be silent within its answer.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) async fn copy(
    rest: &Rest,
    from: &Remote,
    to: Option<PathBuf>,
    user: Option<&str>,
    bar: bool,
) -> Result<(), Failure> {
    let (sandbox, path) = (from.sandbox.to_string(), from.path.as_str());
    let is_tree = rest.is_directory(&sandbox, path, user).await.map_err(said)?;
    let mut answer = rest.archive_download(&sandbox, path, user).await.map_err(said)?;
    let Some(to) = to else { return print(&mut answer).await };
    let target = target(&to, path);
    let (sender, receiver) = mpsc::channel(AHEAD);
    let written = tokio::task::spawn_blocking(move || {
        let parts = Incoming { receiver, part: Bytes::new(), ended: false };
        if is_tree { unpack::tree(parts, &target) } else { unpack::file(parts, &target) }
    });
    let mut meter = Meter::new(bar);
    let received = loop {
        match answer.chunk(Some(SILENCE)).await {
            Ok(Some(part)) => {
                meter.advance(part.len());
                if sender.send(Some(part)).await.is_err() {
                    // Writing has failed, and says why.
                    break Ok(());
                }
            }
            Ok(None) => {
                let _ = sender.send(None).await;
                break Ok(());
            }
            Err(error) => break Err(broken(&error)),
        }
    };
    drop((sender, meter));
    let written = written.await.map_err(|error| Failure::new(error.to_string()))?;
    received?;
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", to.display())))
}

/// Where it goes: into a directory that is there under its own name, and else under the name given.
fn target(to: &Path, path: &str) -> PathBuf {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if to.is_dir() && !matches!(name, "" | "." | "..") { to.join(name) } else { to.to_owned() }
}

async fn print(answer: &mut Response) -> Result<(), Failure> {
    while let Some(part) = answer.chunk(Some(SILENCE)).await.map_err(|error| broken(&error))? {
        output::stdout(&part)
            .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))?;
    }
    Ok(())
}

/// Parts as they come. Without a word about the end they were cut off.
struct Incoming {
    receiver: mpsc::Receiver<Option<Bytes>>,
    part: Bytes,
    ended: bool,
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Some(part)) => self.part = part,
                Some(None) => self.ended = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = buffer.len().min(self.part.len());
        buffer[..length].copy_from_slice(&self.part.split_to(length));
        Ok(length)
    }
}
