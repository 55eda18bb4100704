//! `holm account create`.

use crate::cli::AccountCreateArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::{NewAccount, administer};
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, arguments: AccountCreateArgs) -> Result<u8, Failure> {
    let AccountCreateArgs { name, max_sandboxes, max_lifetime, .. } = arguments;
    let new = NewAccount { name, max_sandboxes, max_lifetime };
    let account = administer(settings, async |admin| admin.account_create(new).await)?;
    if settings.json {
        output::print_json(&account)?;
    } else {
        output::print_line(&account.id)?;
    }
    Ok(exit::SUCCESS)
}
