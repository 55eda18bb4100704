//! `holm account create`.

use holm_engine::{AccountLimits, NewAccount};

use super::view::View;
use crate::cli::AccountCreateArgs;
use crate::commands::host::engine_failure;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, arguments: AccountCreateArgs) -> Result<u8, Failure> {
    let limits = AccountLimits {
        max_sandboxes: arguments.max_sandboxes,
        max_lifetime: arguments.max_lifetime,
    };
    let request = NewAccount { name: arguments.name, limits };
    let account = administer(settings, async |engine| {
        engine.account_create(request).await.map_err(|error| engine_failure(&error))
    })?;
    if settings.json {
        output::print_json(&View::new(&account, 0, &settings.currency))?;
    } else {
        output::print(&format!("{}\n", account.id))?;
    }
    Ok(exit::SUCCESS)
}
