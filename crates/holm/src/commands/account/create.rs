//! `holm account create`.

use crate::cli::AccountCreateArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::{NewAccount, administer};
use crate::settings::{AdminSettings, parse};

pub(super) fn run(settings: &AdminSettings, arguments: AccountCreateArgs) -> Result<u8, Failure> {
    let AccountCreateArgs { name, max_sandboxes, max_lifetime, network, .. } = arguments;
    let network = network.map(|text| parse::network("--network", &text)).transpose()?;
    let new = NewAccount { name, max_sandboxes, max_lifetime, network };
    let account = administer(settings, async |admin| admin.account_create(new).await)?;
    if settings.json {
        output::print_json(&account)?;
    } else {
        output::print_line(&account.id)?;
    }
    Ok(exit::SUCCESS)
}
