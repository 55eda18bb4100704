//! The first start of a service makes an account and a key, so that somebody can begin.
//!
//! The key is kept in a file that is only its owner's. A marker beside it tells a start that broke
//! off between the making of the key and its writing from one where somebody removed the file.

use std::io;
use std::path::{Path, PathBuf};

use holm_engine::{AccountId, Engine, KeyText, NewAccount, NewKey, PageQuery};

use super::Place;
use super::place::write;
use crate::commands::engine_failure;
use crate::exit::Failure;

/// What the account and the key are called.
const NAME: &str = "first";

/// The first key of a service.
#[derive(Debug)]
pub struct FirstKey {
    /// The file that it is in, if it is still there.
    pub file: Option<PathBuf>,
    /// The key itself, if this start has made it.
    pub made: Option<KeyText>,
}

impl FirstKey {
    /// Makes it where there is no key at all; `engine` is the operator's.
    ///
    /// # Errors
    /// When it cannot be made or kept, or the database knows keys and the secret under which they
    /// were hashed is not here (`secret_is_new`).
    pub async fn ensure(
        engine: &Engine,
        place: &Place,
        secret_is_new: bool,
    ) -> Result<Self, Failure> {
        let path = place.first_key();
        let begun = path.with_extension("begun");
        let keys = engine.key_list(None, PageQuery::first(1)).await;
        let keys = keys.map_err(|error| engine_failure(&error))?;
        if !keys.items.is_empty() && !begun.exists() {
            if secret_is_new {
                place.forget_secret();
                return Err(Failure::new(
                    "the database knows API keys, but the secret under which they were made is not \
                     in this data directory",
                )
                .hint(
                    "copy the file `secret` of the data directory that they were made with into \
                     this one, with mode 0600",
                ));
            }
            let file = path.exists().then_some(path);
            return Ok(Self { file, made: None });
        }
        let not_kept = |error: io::Error| not_kept(&path, &error);
        write(&begun, "").map_err(not_kept)?;
        let made = make(engine).await?;
        write(&path, &format!("{}\n", made.reveal())).map_err(not_kept)?;
        std::fs::remove_file(&begun).map_err(not_kept)?;
        Ok(Self { file: Some(path), made: Some(made) })
    }
}

async fn make(engine: &Engine) -> Result<KeyText, Failure> {
    let failure = |error| engine_failure(&error);
    // A start that broke off has left one, and perhaps a key that nobody has seen.
    let accounts = engine.account_list(PageQuery::first(1000)).await.map_err(failure)?;
    let left = accounts.items.iter().find(|account| account.name == NAME);
    let account = match left {
        Some(account) => account.id,
        None => {
            let request = NewAccount { name: NAME.to_owned(), ..NewAccount::default() };
            engine.account_create(request).await.map_err(failure)?.id
        }
    };
    revoke_unseen(engine, account).await?;
    Ok(engine.key_create(NewKey::new(account, NAME)).await.map_err(failure)?.text)
}

async fn revoke_unseen(engine: &Engine, account: AccountId) -> Result<(), Failure> {
    let failure = |error| engine_failure(&error);
    let keys = engine.key_list(Some(account), PageQuery::first(1000)).await.map_err(failure)?;
    for key in keys.items.iter().filter(|key| key.name == NAME && key.last_used_at.is_none()) {
        engine.key_revoke(key.id).await.map_err(failure)?;
    }
    Ok(())
}

fn not_kept(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("the first key cannot be kept in {}: {error}", path.display()))
}
