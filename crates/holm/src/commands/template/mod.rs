//! `holm template`: what sandboxes start from.

mod bar;
mod import;
mod list;
mod prune;
mod pull;
mod rm;
mod show;
mod view;

use holm_template::{Library, TemplateError, TemplateErrorKind};

use super::host;
use crate::cli::{TemplateAction, TemplateArgs};
use crate::env_vars::Environment;
use crate::exit::{self, Failure};
use crate::settings::TemplateSettings;

pub(super) use view::size;

pub(super) fn run(arguments: TemplateArgs, environment: &Environment) -> Result<u8, Failure> {
    let resolve = |place| TemplateSettings::resolve(place, environment);
    match arguments.action {
        TemplateAction::Import(mut import) => {
            let settings = resolve(std::mem::take(&mut import.place))?;
            import::run(&settings, import)
        }
        TemplateAction::Pull(mut pull) => {
            let settings = resolve(std::mem::take(&mut pull.place))?;
            pull::run(&settings, pull, environment)
        }
        TemplateAction::List(list) => list::run(&resolve(list.place)?),
        TemplateAction::Show(show) => show::run(&resolve(show.place)?, &show.name),
        TemplateAction::Rm(rm) => rm::run(&resolve(rm.place)?, &rm.name),
        TemplateAction::Prune(prune) => prune::run(&resolve(prune.place)?),
    }
}

/// The library of the data directory; the log is started before.
fn library(settings: &TemplateSettings) -> Result<Library, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    Library::open(&host::data_dir(&settings.host)).map_err(failure)
}

/// Refuses to take anything away while sandboxes run that no process answers for.
fn refuse_unattended(settings: &TemplateSettings) -> Result<(), Failure> {
    let data_dir = host::data_dir(&settings.host);
    let left =
        holm_runtime::has_unattended(&data_dir).map_err(|error| host::driver_failure(&error))?;
    if left {
        return Err(Failure::new(
            "sandboxes of a service that does not run may use templates of this data directory",
        )
        .hint("start the service, or end its sandboxes with `holm drain`"));
    }
    Ok(())
}

fn failure(error: TemplateError) -> Failure {
    tracing::debug!(internal = %error.internal, "templates");
    let failure = Failure::new(error.message);
    match error.kind {
        TemplateErrorKind::BadName => failure.code(exit::USAGE),
        TemplateErrorKind::Exists => {
            failure.hint("`holm template rm` removes it, --replace takes its place")
        }
        TemplateErrorKind::Confinement => failure.hint("run `holm doctor`; it says how to mend it"),
        TemplateErrorKind::Internal => {
            failure.hint("set HOLM_LOG=debug to see what failed; `holm doctor` checks the host")
        }
        _ => failure,
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(format!("there is no template `{name}`"))
        .hint("`holm template list` shows those that there are")
}
