//! `holm template import`.

use holm_template::import::{Request, import};

use super::bar::Bar;
use super::view::size;
use super::{failure, library};
use crate::cli::TemplateImportArgs;
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(
    settings: &TemplateSettings,
    arguments: TemplateImportArgs,
) -> Result<u8, Failure> {
    let library = library(settings)?;
    let mut request = Request::new(arguments.name);
    request.replace = arguments.replace;
    request.reference = arguments.reference;
    let template = {
        let bar = Bar::new(settings.bar);
        import(&library, &request, &arguments.path, &bar).map_err(failure)?
    };
    done(settings, &template)
}

/// Prints what was made.
pub(super) fn done(
    settings: &TemplateSettings,
    template: &holm_template::Template,
) -> Result<u8, Failure> {
    if settings.json {
        output::print_json(template)?;
    } else {
        let layers = match template.layers.len() {
            1 => "1 layer".to_owned(),
            count => format!("{count} layers"),
        };
        let name = &template.name;
        output::print_line(&format!("{name} is there: {layers}, {}", size(template.bytes)))?;
    }
    Ok(exit::SUCCESS)
}
