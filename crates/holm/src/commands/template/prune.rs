//! `holm template prune`.

use super::view::size;
use super::{failure, library, refuse_unattended};
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(settings: &TemplateSettings) -> Result<u8, Failure> {
    let library = library(settings)?;
    refuse_unattended(settings)?;
    let pruned = library.prune().map_err(failure)?;
    if settings.json {
        output::print_json(&pruned)?;
    } else {
        let layers = match pruned.layers {
            1 => "1 layer".to_owned(),
            count => format!("{count} layers"),
        };
        output::print_line(&format!("freed {layers}, {}", size(pruned.bytes)))?;
    }
    Ok(exit::SUCCESS)
}
