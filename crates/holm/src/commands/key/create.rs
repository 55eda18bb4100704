//! `holm key create`.

use holm_engine::{KeyScope, NewKey};
use jiff::Timestamp;
use serde::Serialize;

use super::view::View;
use crate::cli::KeyCreateArgs;
use crate::commands::account;
use crate::commands::host::engine_failure;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::AdminSettings;

/// What `--json` prints.
#[derive(Serialize)]
struct Created<'a> {
    /// The key itself: shown now or never.
    key: &'a str,
    #[serde(flatten)]
    view: View,
}

pub(super) fn run(settings: &AdminSettings, arguments: KeyCreateArgs) -> Result<u8, Failure> {
    let now = Timestamp::now();
    let expires_at = arguments.expires_in.map(|time| now.checked_add(time)).transpose();
    let expires_at =
        expires_at.map_err(|_| Failure::usage("--expires-in is later than any date"))?;
    let scopes = arguments.scopes.iter().filter_map(|scope| KeyScope::read(scope)).collect();
    let made = administer(settings, async |engine| {
        let account = account::find(engine, &arguments.account).await?;
        let request = NewKey { account, name: arguments.name, scopes, expires_at };
        engine.key_create(request).await.map_err(|error| engine_failure(&error))
    })?;
    let view = View::new(&made.key, now);
    if settings.json {
        output::print_json(&Created { key: made.text.reveal(), view })?;
    } else {
        output::print(&format!("{}\n", made.text.reveal()))?;
        let scopes = view.scopes.join(", ");
        let note = format!("{} may: {scopes}. It is not shown again.\n", made.key.id);
        output::stderr(note.as_bytes());
    }
    Ok(exit::SUCCESS)
}
