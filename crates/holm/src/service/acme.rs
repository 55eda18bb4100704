//! The certificate of previews, got from an authority and renewed while the service runs.
//!
//! | file in the data directory | what it is |
//! | --- | --- |
//! | `acme-account.json` | the account at the authority, with its key |
//! | `acme-preview.json` | the certificate in force, with its key |

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use holm_client::Url;
use holm_client::acme::validity::Validity;
use holm_client::acme::{Authority, Issued, Records, Registered, Working};
use holm_gateway::http::tls::Wildcard;
use holm_gateway::preview::Domain;
use holm_runtime::Hook;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::place::write;

/// The pause after the first attempt that failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// How often the clock is looked at, which may be set, and stands still while a machine sleeps.
const LOOK: Duration = Duration::from_secs(600);
/// Characters of a failure in the log.
const TOLD: usize = 4096;

/// Who makes certificates, and what puts records into DNS.
#[derive(Debug, Clone)]
pub struct AcmeSettings {
    /// The authority.
    pub authority: Authority,
    /// The program that is run.
    pub hook: PathBuf,
}

/// What gets the certificate.
pub struct Acme {
    authority: Authority,
    records: HookRecords,
    domain: Domain,
    wildcard: Arc<Wildcard>,
    account_file: PathBuf,
    certificate_file: PathBuf,
}

/// The account at an authority.
#[derive(Serialize, Deserialize)]
struct KeptAccount {
    directory: String,
    credentials: String,
}

/// A certificate for the names below a domain.
#[derive(Serialize, Deserialize)]
struct KeptCertificate {
    directory: String,
    domain: String,
    key: String,
    chain: String,
}

struct HookRecords(Hook);

impl Records for HookRecords {
    fn present<'a>(&'a self, name: &'a str, value: &'a str) -> Working<'a> {
        self.run("present", name, value)
    }

    fn cleanup<'a>(&'a self, name: &'a str, value: &'a str) -> Working<'a> {
        self.run("cleanup", name, value)
    }
}

impl HookRecords {
    fn run<'a>(&'a self, what: &'a str, name: &'a str, value: &'a str) -> Working<'a> {
        Box::pin(async move {
            let ran = self.0.run(&[what, name, value]).await;
            ran.map_err(|error| format!("`{what}`: {error}"))
        })
    }
}

impl Acme {
    /// Puts the certificate that was kept in force, if there is one.
    #[must_use]
    pub fn new(
        settings: &AcmeSettings,
        hook: Hook,
        (domain, wildcard): (Domain, Arc<Wildcard>),
        dir: &Path,
    ) -> Self {
        Self {
            authority: settings.authority.clone(),
            records: HookRecords(hook),
            domain,
            wildcard,
            account_file: dir.join("acme-account.json"),
            certificate_file: dir.join("acme-preview.json"),
        }
    }

    /// Gets one where there is none, and the next one when two thirds of its time are over; until
    /// this is dropped.
    pub async fn keep(self) {
        let mut renew_at = self.kept();
        let mut failed = 0;
        loop {
            wait_until(renew_at).await;
            match self.renew().await {
                Ok(next) => {
                    tracing::info!(domain = %self.domain, renewed = %next, "previews have a certificate");
                    (renew_at, failed) = (Some(next), 0);
                }
                Err(reason) => {
                    failed += 1;
                    let pause = pause(failed);
                    let reason: String = reason.chars().take(TOLD).collect();
                    let domain = &self.domain;
                    tracing::error!(%domain, ?pause, "no certificate for previews: {reason}");
                    tokio::time::sleep(pause).await;
                    renew_at = None;
                }
            }
        }
    }

    fn directory(&self) -> String {
        let url: &Url = &self.authority.directory;
        format!("{}{}", url.origin(), url.own_path())
    }

    /// Puts what was kept in force, where it still holds: when it is to be renewed.
    fn kept(&self) -> Option<Timestamp> {
        let kept: KeptCertificate = read(&self.certificate_file)?;
        if kept.domain != self.domain.to_string() || kept.directory != self.directory() {
            return None;
        }
        self.put(&Issued { key: kept.key, chain: kept.chain })
            .inspect_err(
                |error| tracing::warn!(%error, "the certificate that was kept is not used"),
            )
            .ok()
    }

    async fn renew(&self) -> Result<Timestamp, String> {
        let account = self.account().await?;
        let domain = self.domain.to_string();
        let issued = account.issue(&domain, &self.records).await.map_err(|it| it.to_string())?;
        let unfit = |reason| format!("the certificate that the authority gives: {reason}");
        let renew_at = self.put(&issued).map_err(unfit)?;
        let Issued { key, chain } = issued;
        let kept = KeptCertificate { directory: self.directory(), domain, key, chain };
        // It is in force all the same, and the next start asks for one again.
        if let Err(error) = keep(&self.certificate_file, &kept) {
            tracing::error!(%error, "the certificate of previews is not kept");
        }
        if renew_at <= Timestamp::now() {
            // It serves, and is no reason to ask without a pause.
            let text = "the authority gives certificates of which two thirds are over already";
            return Err(text.to_owned());
        }
        Ok(renew_at)
    }

    /// Puts it in force: when it is to be renewed. One that is wrong takes no other's place.
    fn put(&self, issued: &Issued) -> Result<Timestamp, String> {
        self.wildcard.set(&issued.chain, &issued.key, |der| {
            let validity = Validity::of(der).ok_or("its times cannot be read")?;
            if validity.until <= Timestamp::now() {
                return Err(format!("it is over since {}", validity.until));
            }
            Ok(validity.renew_at())
        })
    }

    async fn account(&self) -> Result<Registered, String> {
        let kept: Option<KeptAccount> = read(&self.account_file);
        let kept = kept.filter(|kept| kept.directory == self.directory());
        let kept = kept.map(|kept| kept.credentials);
        let made = self.authority.account(kept.as_deref()).await.map_err(|it| it.to_string())?;
        if let (_, Some(credentials)) = &made {
            let kept =
                KeptAccount { directory: self.directory(), credentials: credentials.clone() };
            keep(&self.account_file, &kept).map_err(|error| {
                format!(
                    "the account at the authority cannot be kept in the data directory: {error}"
                )
            })?;
        }
        Ok(made.0)
    }
}

/// How long to wait after so many attempts that failed, one after the other.
fn pause(failed: u32) -> Duration {
    let times = 1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(times.max(1)).min(LONGEST_PAUSE)
}

async fn wait_until(at: Option<Timestamp>) {
    let Some(at) = at else { return };
    // Nothing where it is over: a negative time is none.
    let left = || Duration::try_from(at.duration_since(Timestamp::now())).ok();
    while let Some(left) = left().filter(|left| !left.is_zero()) {
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// What is in a file; nothing where there is none, or none that can be read.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "a file of the certificates cannot be read");
            return None;
        }
    };
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::warn!(%error, "a file of the certificates is not used"))
        .ok()
}

fn keep(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write(path, &serde_json::to_string(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_six_hours() {
        let minutes = |failed: u32| pause(failed).as_secs() / 60;
        let got: Vec<u64> = (1..=5).map(minutes).collect();
        assert_eq!(got, [1, 2, 4, 8, 16]);
        assert_eq!(
            (minutes(10), minutes(32), minutes(33), minutes(u32::MAX)),
            (360, 360, 360, 360)
        );
    }

    #[test]
    fn what_was_kept_wrongly_is_not_used() {
        let dir = std::env::temp_dir().join(format!("holm-acme-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("kept.json");
        assert!(read::<KeptAccount>(&file).is_none());
        let account = KeptAccount { directory: "a".to_owned(), credentials: "b".to_owned() };
        keep(&file, &account).expect("written");
        assert_eq!(read::<KeptAccount>(&file).expect("it is there").credentials, "b");
        for text in ["", "{", "{\"directory\": 7}"] {
            std::fs::write(&file, text).expect("written");
            assert!(read::<KeptAccount>(&file).is_none(), "{text}");
        }
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
