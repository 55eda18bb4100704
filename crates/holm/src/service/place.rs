//! The data directory of a service.
//!
//! | file | what it is |
//! | --- | --- |
//! | `lock` | held by the service that runs |
//! | `node` | the id under which this machine's sandboxes are recorded |
//! | `secret` | what API keys are hashed under; without it no key works any more |
//! | `seal-key` | what secrets of accounts are sealed with; without it none can be used any more |
//! | `gate-ca.pem` | the authority with which the egress gate speaks for hosts of secrets |
//! | `gate-ca.crt` | its certificate, which sandboxes trust |
//! | `acme-account.json`, `acme-preview.json` | account and certificate of previews, where an authority gives one |
//! | `holm.db` | the database, unless it is a PostgreSQL server |
//! | `first-key` | the key that the first start made |

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use holm_engine::{Ca, KeyHasher, NodeId, Sealer};
use rustix::fs::{FlockOperation, flock};

use crate::exit::Failure;

/// A data directory.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// Held for as long as this lives, by a service.
    _lock: Option<File>,
}

impl Place {
    /// The directory, made where it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or another user could change it.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        holm_runtime::make_data_dir(dir).map_err(|error| not_usable(dir, &error.internal))?;
        Ok(Self { dir: dir.to_owned(), _lock: None })
    }

    /// The same for a service, of which only one at a time may use it.
    ///
    /// # Errors
    /// When it cannot be made, or another service uses it.
    pub fn hold(dir: &Path) -> Result<Self, Failure> {
        let place = Self::open(dir)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("lock"));
        let lock = lock.map_err(|error| not_usable(dir, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: Some(lock), ..place }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Failure::new(format!(
                "another `holm serve` uses the data directory {}",
                dir.display()
            ))
            .hint("stop it first, or choose another directory with --data-dir")),
            Err(errno) => Err(not_usable(dir, &errno)),
        }
    }

    /// Where the database of a service without a database server is.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.dir.join("holm.db")
    }

    /// Where the first key is kept.
    #[must_use]
    pub fn first_key(&self) -> PathBuf {
        self.dir.join("first-key")
    }

    /// The directory itself.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the secret of the API keys is there already.
    #[must_use]
    pub fn has_secret(&self) -> bool {
        self.secret().exists()
    }

    /// Removes a secret that was made just now and turned out to be the wrong one, so that the
    /// next start sees that the right one is missing.
    pub(super) fn forget_secret(&self) {
        if let Err(error) = std::fs::remove_file(self.secret()) {
            tracing::warn!(%error, "the new secret was not removed");
        }
    }

    fn secret(&self) -> PathBuf {
        self.dir.join("secret")
    }

    /// What hashes API keys, under a secret that is made where it is missing.
    ///
    /// # Errors
    /// When the secret cannot be read or made, or is none.
    pub fn keys(&self) -> Result<KeyHasher, Failure> {
        let path = self.secret();
        KeyHasher::from_file(&path).map_err(|error| {
            Failure::new(format!("the secret of the API keys, {}: {error}", path.display()))
        })
    }

    /// What seals accounts' secrets, with a key that is made where it is missing.
    ///
    /// # Errors
    /// When the key cannot be read or made, or is none.
    pub fn sealer(&self) -> Result<Sealer, Failure> {
        let path = self.dir.join("seal-key");
        Sealer::from_file(&path).map_err(|error| {
            Failure::new(format!("the key that seals secrets, {}: {error}", path.display()))
        })
    }

    /// The authority with which the gate speaks for hosts to sandboxes that have secrets, made
    /// where it is missing.
    ///
    /// # Errors
    /// When it cannot be read or made, or is none.
    pub fn authority(&self) -> Result<Ca, Failure> {
        let ca = Ca::load_or_create(&self.dir).map_err(|error| Failure::new(error.to_string()))?;
        // Its certificate alone, for the template.
        let path = self.dir.join(holm_runtime::AUTHORITY);
        let certificate = ca.certificate_pem();
        if std::fs::read_to_string(&path).ok().as_deref() != Some(certificate) {
            let failure = |error| {
                Failure::new(format!("the gate's certificate, {}: {error}", path.display()))
            };
            write(&path, certificate).map_err(failure)?;
        }
        Ok(ca)
    }

    /// The id of this machine, made where it is missing. For who holds the directory.
    ///
    /// # Errors
    /// When it cannot be read or made, or is none.
    pub fn node(&self) -> Result<NodeId, Failure> {
        let path = self.dir.join("node");
        let failure = |error: &dyn std::fmt::Display| {
            Failure::new(format!("the id of this node, {}: {error}", path.display()))
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map_err(|error| failure(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = NodeId::random().map_err(|error| failure(&error))?;
                write(&path, &format!("{id}\n")).map_err(|error| failure(&error))?;
                Ok(id)
            }
            Err(error) => Err(failure(&error)),
        }
    }
}

/// Writes a file that is only its owner's; it is there as a whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file =
        OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn not_usable(dir: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("the data directory {} cannot be used: {error}", dir.display()))
        .hint("choose another one with --data-dir or HOLM_DATA_DIR")
}
