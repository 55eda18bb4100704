//! From here into a sandbox.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use holm_client::rest::Rest;
use holm_client::{Bytes, PartSender, parts};

use super::super::said;
use super::meter::Meter;
use super::{pack, placed};
use crate::exit::Failure;
use crate::settings::Remote;

/// Bytes of a part.
const PART: usize = 256 << 10;

pub(super) async fn copy(
    rest: &Rest,
    from: Option<PathBuf>,
    to: &Remote,
    user: Option<&str>,
    bar: bool,
) -> Result<(), Failure> {
    let sandbox = to.sandbox.to_string();
    let (directory, source) = match from {
        None => (to.path.clone(), None),
        Some(path) if is_contents(&path) => (to.path.clone(), Some((path, None))),
        Some(path) => {
            let there = rest.is_directory(&sandbox, &to.path, user).await.map_err(said)?;
            let (directory, name) = placed(&to.path, there, &name_of(&path)?);
            (directory, Some((path, Some(name))))
        }
    };
    let (sender, parts) = parts();
    // Reading here waits for disks. When the service answers early it ends by its next part.
    let packed = tokio::task::spawn_blocking(move || {
        let mut out = Parted { sender, gathered: Vec::new(), meter: Meter::new(bar) };
        match source {
            Some((path, name)) => pack::pack(&path, name.as_deref(), &mut out)?,
            None => pass(&mut out)?,
        }
        out.end();
        Ok::<_, io::Error>(())
    });
    let sent = rest.archive_upload(&sandbox, &directory, user, parts).await;
    let packed = packed.await.map_err(|error| Failure::new(error.to_string()))?;
    match (sent, packed) {
        // What the service says comes first, unless it only saw that we had stopped.
        (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(error.to_string()))
        }
        (sent, _) => sent.map(|_| ()).map_err(said),
    }
}

/// `src/.` is what is in `src`.
fn is_contents(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes == b"." || bytes.ends_with(b"/.")
}

fn name_of(path: &Path) -> Result<String, Failure> {
    // Of `..` and the like what it is really called.
    let real = match path.file_name() {
        Some(_) => path.to_owned(),
        None => std::fs::canonicalize(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
    };
    let name = real.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| Failure::usage(format!("{} has no name to copy it under", path.display())))
}

fn pass(out: &mut Parted) -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut buffer = vec![0; PART];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return out.flush(),
            Ok(length) => out.write_all(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Gathers what is written into parts.
struct Parted {
    sender: PartSender,
    gathered: Vec<u8>,
    meter: Meter,
}

impl Parted {
    fn end(self) {
        self.sender.end_blocking();
    }
}

impl Write for Parted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PART {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.meter.advance(self.gathered.len());
        let part = Bytes::from(std::mem::take(&mut self.gathered));
        if self.sender.send_blocking(part) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}
