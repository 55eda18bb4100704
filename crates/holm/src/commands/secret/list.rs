//! `holm secret list`.

use crate::exit::{self, Failure};
use crate::output;
use crate::service::{SecretView, administer};
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, account: Option<&str>) -> Result<u8, Failure> {
    let secrets = administer(settings, async |admin| {
        let account = admin.secret_owner(account).await?;
        admin.secret_list(account).await
    })?;
    if settings.json {
        output::print_json(&secrets)?;
    } else {
        output::print_rows(&SecretView::HEAD, secrets.iter().map(SecretView::row))?;
    }
    Ok(exit::SUCCESS)
}
