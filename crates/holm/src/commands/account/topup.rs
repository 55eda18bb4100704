//! `holm account topup`.

use serde::Serialize;

use crate::cli::AccountTopupArgs;
use crate::commands::host::engine_failure;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::{AdminSettings, money};

/// What `--json` prints. Money is in millionths of the currency's unit.
#[derive(Serialize)]
struct View<'a> {
    account: String,
    entry: String,
    amount: i64,
    balance: i64,
    currency: &'a str,
}

pub(super) fn run(settings: &AdminSettings, arguments: AccountTopupArgs) -> Result<u8, Failure> {
    let amount = money::read(&arguments.amount).filter(|amount| *amount > 0).ok_or_else(|| {
        Failure::usage(format!("`{}` is no amount above 0", arguments.amount))
            .hint("write it in the currency's unit with at most six decimals, such as 10 or 2.50")
    })?;
    let entry = administer(settings, async |engine| {
        let account = super::find(engine, &arguments.account).await?;
        let topup = engine.account_topup(account, amount, arguments.reference);
        topup.await.map_err(|error| engine_failure(&error))
    })?;
    let currency = &settings.currency;
    if settings.json {
        output::print_json(&View {
            account: entry.account_id.to_string(),
            entry: entry.id.to_string(),
            amount: entry.amount,
            balance: entry.balance_after,
            currency,
        })?;
    } else {
        let balance = money::show(entry.balance_after);
        output::print(&format!("{} has {balance} {currency} now\n", entry.account_id))?;
    }
    Ok(exit::SUCCESS)
}
