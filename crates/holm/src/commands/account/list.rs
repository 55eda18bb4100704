//! `holm account list`.

use crate::exit::{self, Failure};
use crate::output;
use crate::service::{AccountView, administer};
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings) -> Result<u8, Failure> {
    let accounts = administer(settings, async |admin| admin.account_list().await)?;
    if settings.json {
        output::print_json(&accounts)?;
    } else {
        output::print_rows(&AccountView::HEAD, accounts.iter().map(AccountView::row))?;
    }
    Ok(exit::SUCCESS)
}
