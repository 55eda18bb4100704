//! `holm template show`.

use holm_template::Template;

use super::{failure, library, unknown, view};
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::TemplateSettings;

pub(super) fn run(settings: &TemplateSettings, name: &str) -> Result<u8, Failure> {
    let found = library(settings)?.get(name).map_err(failure)?;
    let template = found.ok_or_else(|| unknown(name))?;
    if settings.json {
        output::print_json(&template)?;
    } else {
        output::print_rows(&["", ""], rows(&template))?;
    }
    Ok(exit::SUCCESS)
}

fn rows(template: &Template) -> Vec<Vec<String>> {
    let config = &template.config;
    let mut rows = Vec::new();
    let mut add = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    add("name", template.name.clone());
    add("source", template.source.clone());
    add("created", view::created(template));
    add("size", view::size(template.bytes));
    for layer in &template.layers {
        add("layer", layer.to_string());
    }
    for (name, value) in [("user", &config.user), ("workdir", &config.workdir)] {
        if let Some(value) = value {
            add(name, value.clone());
        }
    }
    for (name, words) in [("entrypoint", &config.entrypoint), ("cmd", &config.cmd)] {
        if !words.is_empty() {
            add(name, words.join(" "));
        }
    }
    for (name, value) in [("start", &config.start), ("ready", &config.ready)] {
        if let Some(value) = value {
            add(name, value.clone());
        }
    }
    for (name, value) in &config.env {
        add("env", format!("{name}={value}"));
    }
    for (name, value) in &config.labels {
        add("label", format!("{name}={value}"));
    }
    rows
}
