//! `holm template list`.

use super::{failure, library, view};
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(settings: &TemplateSettings) -> Result<u8, Failure> {
    let templates = library(settings)?.list().map_err(failure)?;
    if settings.json {
        output::print_json(&templates)?;
    } else {
        output::print_rows(&view::HEAD, templates.iter().map(view::row))?;
    }
    Ok(exit::SUCCESS)
}
