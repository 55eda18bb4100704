//! `holm secret rm`.

use crate::cli::SecretRmArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, arguments: &SecretRmArgs) -> Result<u8, Failure> {
    let name = &arguments.name;
    administer(settings, async |admin| {
        let account = admin.secret_owner(arguments.account.as_deref()).await?;
        admin.secret_delete(account, name).await
    })?;
    if settings.json {
        output::print_json(&serde_json::json!({"name": name}))?;
    } else {
        output::print_line(&format!("{name} is removed"))?;
    }
    Ok(exit::SUCCESS)
}
