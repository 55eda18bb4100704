//! `holm account topup`.

use crate::cli::AccountTopupArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::{AdminSettings, money};

pub(super) fn run(settings: &AdminSettings, arguments: AccountTopupArgs) -> Result<u8, Failure> {
    let amount = money::read(&arguments.amount).filter(|amount| *amount > 0).ok_or_else(|| {
        Failure::usage(format!("`{}` is no amount above 0", arguments.amount))
            .hint("write it in the currency's unit with at most six decimals, such as 10 or 2.50")
    })?;
    let payment = administer(settings, async |admin| {
        let account = admin.account_find(&arguments.account).await?;
        admin.account_topup(account, amount, arguments.reference).await
    })?;
    if settings.json {
        output::print_json(&payment)?;
    } else {
        let balance = money::show(payment.balance);
        let (account, currency) = (payment.account, payment.currency);
        output::print_line(&format!("{account} has {balance} {currency} now"))?;
    }
    Ok(exit::SUCCESS)
}
