//! `holm secret set`.

use holm_engine::NewSecret;

use super::value;
use crate::cli::SecretSetArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, arguments: SecretSetArgs) -> Result<u8, Failure> {
    let value = value::read(&arguments.name)?;
    let new = NewSecret {
        name: arguments.name,
        value,
        hosts: arguments.host,
        headers: arguments.header,
        allow_plaintext: arguments.allow_plaintext,
    };
    let secret = administer(settings, async |admin| {
        let account = admin.secret_owner(arguments.account.as_deref()).await?;
        admin.secret_put(account, new).await
    })?;
    if settings.json {
        output::print_json(&secret)?;
    } else {
        output::print_line(&format!("{} is set, for {}", secret.name, secret.hosts.join(", ")))?;
    }
    Ok(exit::SUCCESS)
}
