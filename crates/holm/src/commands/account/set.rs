//! `holm account set`.

use std::time::Duration;

use crate::cli::AccountSetArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::{AccountChange, administer};
use crate::settings::{AdminSettings, parse};

/// What stands for the service's own limit.
const DEFAULT: &str = "default";

pub(super) fn run(settings: &AdminSettings, arguments: &AccountSetArgs) -> Result<u8, Failure> {
    let change = AccountChange {
        max_sandboxes: limit(arguments.max_sandboxes.as_deref(), |text| {
            let count = text.parse().ok().filter(|count| *count > 0);
            let wrong = || Failure::usage(format!("--max-sandboxes: `{text}` is no count above 0"));
            count.ok_or_else(wrong)
        })?,
        max_lifetime: limit(arguments.max_lifetime.as_deref(), |text| -> Result<Duration, _> {
            parse::duration(text)
                .map_err(|error| Failure::usage(format!("--max-lifetime: {error}")))
        })?,
        network: limit(arguments.network.as_deref(), |text| parse::network("--network", text))?,
    };
    let account = administer(settings, async |admin| {
        let account = admin.account_find(&arguments.account).await?;
        admin.account_change(account, change).await
    })?;
    if settings.json {
        output::print_json(&account)?;
    } else {
        output::print_line(&format!("{} has other limits now", account.id))?;
    }
    Ok(exit::SUCCESS)
}

/// Nothing where it was not given; nothing inside for the service's own.
fn limit<T>(
    given: Option<&str>,
    read: impl Fn(&str) -> Result<T, Failure>,
) -> Result<Option<Option<T>>, Failure> {
    match given {
        None => Ok(None),
        Some(DEFAULT) => Ok(Some(None)),
        Some(text) => read(text).map(|limit| Some(Some(limit))),
    }
}
