//! `holm key create`.

use holm_engine::KeyScope;
use jiff::Timestamp;

use crate::cli::KeyCreateArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::{NewKey, administer};
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, arguments: KeyCreateArgs) -> Result<u8, Failure> {
    let expires_at = arguments.expires_in.map(|time| Timestamp::now().checked_add(time));
    let expires_at = expires_at.transpose();
    let expires_at =
        expires_at.map_err(|_| Failure::usage("--expires-in is later than any date"))?;
    let scopes = arguments.scopes.iter().filter_map(|scope| KeyScope::read(scope)).collect();
    let new = NewKey { name: arguments.name, scopes, expires_at };
    let made = administer(settings, async |admin| {
        let account = admin.account_find(&arguments.account).await?;
        admin.key_create(account, new).await
    })?;
    if settings.json {
        output::print_json(&made)?;
    } else {
        output::print_line(&made.key)?;
        let (id, scopes) = (&made.view.id, made.view.scopes.join(", "));
        output::stderr(format!("{id} may: {scopes}. It is not shown again.\n").as_bytes());
    }
    Ok(exit::SUCCESS)
}
