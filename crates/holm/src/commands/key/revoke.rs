//! `holm key revoke`.

use holm_engine::KeyId;

use crate::exit::{self, Failure};
use crate::output;
use crate::service::administer;
use crate::settings::AdminSettings;

pub(super) fn run(settings: &AdminSettings, key: &str) -> Result<u8, Failure> {
    // What was given may be the key itself, so it is not repeated.
    let id: KeyId = key.parse().map_err(|error| {
        Failure::usage(format!("the key's id {error}")).hint("`holm key list` shows the ids")
    })?;
    let revoked = administer(settings, async |admin| admin.key_revoke(id).await)?;
    if settings.json {
        output::print_json(&revoked)?;
    } else {
        output::print_line(&format!("{id} is revoked"))?;
    }
    Ok(exit::SUCCESS)
}
