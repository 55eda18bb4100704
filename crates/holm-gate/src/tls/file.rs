//! The file that holds an authority: made once, whole or not at all, for its owner only.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// The name of the file.
pub(crate) const NAME: &str = "gate-ca.pem";
/// The longest such file.
const LONGEST: u64 = 64 * 1024;

/// What is wrong with a file or its directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("others may read it (mode {0:o}); its mode must be 600")]
    Open(u32),
    #[error("it is no plain file, or too long")]
    Kind,
}

/// The text of the file, or what `make` makes if there is none. Of several that make one at the same
/// time all get the same.
pub(crate) fn load_or_make<E: From<Wrong>>(
    directory: &Path,
    make: impl FnOnce() -> Result<Zeroizing<String>, E>,
) -> Result<Zeroizing<String>, E> {
    if let Some(text) = load(&directory.join(NAME))? {
        return Ok(text);
    }
    let text = make()?;
    place(directory, &text).map_err(|error| E::from(error.into()))?;
    load(&directory.join(NAME))?
        .ok_or_else(|| E::from(Wrong::Io(io::Error::from(io::ErrorKind::NotFound))))
}

fn load(path: &Path) -> Result<Option<Zeroizing<String>>, Wrong> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(Wrong::Kind);
    }
    if meta.mode() & 0o077 != 0 {
        return Err(Wrong::Open(meta.mode() & 0o777));
    }
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(LONGEST).unwrap_or(0)));
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Writes it under another name and links it to its own: whoever comes second finds the first one's.
fn place(directory: &Path, text: &str) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let draft = Draft::new(directory)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    match std::fs::hard_link(&draft.0, directory.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    drop(draft);
    File::open(directory)?.sync_all()
}

/// A name for a file that goes when this does.
struct Draft(PathBuf);

impl Draft {
    fn new(directory: &Path) -> io::Result<Self> {
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let number = u64::from_ne_bytes(bytes);
        Ok(Self(directory.join(format!(".{NAME}.{number:016x}"))))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}
