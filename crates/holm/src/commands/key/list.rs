//! `holm key list`.

use crate::exit::{self, Failure};
use crate::output;
use crate::service::{KeyView, administer};
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, account: Option<&str>) -> Result<u8, Failure> {
    let keys = administer(settings, async |admin| {
        let account = match account {
            Some(named) => Some(admin.account_find(named).await?),
            None => None,
        };
        admin.key_list(account).await
    })?;
    if settings.json {
        output::print_json(&keys)?;
    } else {
        output::print_rows(&KeyView::HEAD, keys.iter().map(KeyView::row))?;
    }
    Ok(exit::SUCCESS)
}
