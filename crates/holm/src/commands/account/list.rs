//! `holm account list`.

use super::view::View;
use crate::commands::host::engine_failure;
use crate::exit::{self, Failure};
use crate::output::{self, table};
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings) -> Result<u8, Failure> {
    let views = administer(settings, async |engine| {
        let mut views = Vec::new();
        for account in super::all(engine).await? {
            let balance = engine.account_balance(account.id).await;
            let balance = balance.map_err(|error| engine_failure(&error))?;
            views.push(View::new(&account, balance, &settings.currency));
        }
        Ok(views)
    })?;
    if settings.json {
        output::print_json(&views)?;
        return Ok(exit::SUCCESS);
    }
    let rows: Vec<Vec<String>> = views.iter().map(View::row).collect();
    output::print(&table(&View::HEAD, &rows))?;
    Ok(exit::SUCCESS)
}
