//! `holm template pull`.

use std::path::Path;

use holm_template::import::Request;
use holm_template::registry::{Access, Login, Reference, pull};

use super::bar::Bar;
use super::{failure, import, library};
use crate::cli::TemplatePullArgs;
use crate::env_vars::Environment;
use crate::exit::Failure;
use crate::settings::{TemplateSettings, registry_ways};

pub(super) fn run(
    settings: &TemplateSettings,
    arguments: TemplatePullArgs,
    environment: &Environment,
) -> Result<u8, Failure> {
    let library = library(settings)?;
    let image = Reference::parse(&arguments.image).map_err(failure)?;
    let (roots, proxies) = registry_ways(environment)?;
    let access = Access {
        login: login(arguments.user, arguments.password_file.as_deref())?,
        mirrors: arguments.mirror,
        insecure: arguments.insecure,
        roots,
        proxies,
        ..Access::default()
    };
    let mut request = Request::new(arguments.name);
    request.replace = arguments.replace;
    let template = {
        let bar = Bar::new(settings.bar);
        pull(&library, &request, &image, &access, &bar).map_err(failure)?
    };
    import::done(settings, &template)
}

fn login(user: Option<String>, file: Option<&Path>) -> Result<Option<Login>, Failure> {
    let (Some(user), Some(file)) = (user, file) else { return Ok(None) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("the password file {}: {error}", file.display())))?;
    let password = text.strip_suffix('\n').unwrap_or(&text).to_owned();
    Ok(Some(Login { user, password }))
}
