//! The installation's own secrets, under which API keys are hashed and accounts' secrets sealed:
//! files beside the database, never in it, and only their owner's.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::id::random_bytes;
use crate::{EventId, KeyHasher};

const BYTES: usize = 32;

impl KeyHasher {
    /// Under the secret in `path`, which is made (32 random bytes, mode 0600) where it is missing.
    /// Several processes that start at once get the same one. Without this file no key works any
    /// more, so it belongs into every backup.
    ///
    /// # Errors
    /// When it cannot be made or read, others may read it, or it is no such secret.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        match file(path, 1)?.as_slice() {
            [secret] => Ok(Self::new(secret)),
            _ => Err(invalid("the secret of the API keys is not 32 bytes long")),
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// The secrets in a file, `most` of them at most, each of 32 bytes; the file is made with one where
/// it is missing.
pub(crate) fn file(path: &Path, most: usize) -> Result<Vec<[u8; BYTES]>, Error> {
    match File::open(path) {
        Ok(file) => read(file, most),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(path)?;
            read(File::open(path)?, most)
        }
        Err(error) => Err(error),
    }
}

fn read(file: File, most: usize) -> Result<Vec<[u8; BYTES]>, Error> {
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(invalid("others may read this secret; its mode must be 0600"));
    }
    let most = BYTES * most;
    let mut bytes = Vec::with_capacity(most + 1);
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let (secrets, rest) = bytes.as_chunks::<BYTES>();
    if secrets.is_empty() || !rest.is_empty() || bytes.len() > most {
        return Err(invalid("this secret is not of 32 bytes"));
    }
    Ok(secrets.to_vec())
}

/// Writes a new one beside `path` and gives it its name when it is whole; whoever is first wins.
fn make(path: &Path) -> Result<(), Error> {
    let secret: [u8; BYTES] = random_bytes().map_err(Error::other)?;
    let digits = EventId::random().map_err(Error::other)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", digits.digits()));
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file
        // The mode above is under the umask, which may only have taken away.
        .set_permissions(Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(&secret))
        .and_then(|()| file.sync_all())
        .and_then(|()| match std::fs::hard_link(&new, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        });
    std::fs::remove_file(&new)?;
    written?;
    // The name itself is on disk only after its directory is.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(std::path::PathBuf);

    impl Directory {
        fn new() -> Self {
            let id = EventId::random().unwrap();
            let path = std::env::temp_dir().join(format!("holm-secret-test-{}", id.digits()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn one_secret_for_all_that_start_at_once_and_nothing_else_is_left() {
        let directory = Directory::new();
        let path = directory.0.join("secret");
        let start = || KeyHasher::from_file(&path).unwrap().hash("x");
        let hashes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(hashes.iter().all(|hash| *hash == hashes[0]));
        assert_eq!(start(), hashes[0]);
        assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_is_open_or_cut_off_is_refused() {
        let directory = Directory::new();
        for (bytes, mode, part) in [(32, 0o640, "0600"), (31, 0o600, "32"), (33, 0o600, "32")] {
            let path = directory.0.join("secret");
            std::fs::write(&path, vec![1; bytes]).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = KeyHasher::from_file(&path).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}
