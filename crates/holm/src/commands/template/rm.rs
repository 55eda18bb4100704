//! `holm template rm`.

use super::{failure, library, unknown};
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(settings: &TemplateSettings, name: &str) -> Result<u8, Failure> {
    if !library(settings)?.remove(name).map_err(failure)? {
        return Err(unknown(name));
    }
    if settings.json {
        output::print_json(&serde_json::json!({"name": name}))?;
    } else {
        output::print_line(&format!("{name} is removed"))?;
    }
    Ok(exit::SUCCESS)
}
