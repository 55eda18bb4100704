//! `holm template rm`.

use super::{failure, library, refuse_unattended, unknown};
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(settings: &TemplateSettings, name: &str) -> Result<u8, Failure> {
    let library = library(settings)?;
    refuse_unattended(settings)?;
    if !library.remove(name).map_err(failure)? {
        return Err(unknown(name));
    }
    if settings.json {
        output::print_json(&serde_json::json!({"name": name}))?;
    } else {
        output::print_line(&format!("{name} is removed"))?;
    }
    Ok(exit::SUCCESS)
}
