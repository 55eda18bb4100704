//! The library of templates, as the engine asks for it.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use holm_engine::{
    Error, ErrorKind, HeldTemplate, SharedLibrary, Template, TemplateConfig, TemplateLibrary,
};
use holm_template::{LayerId, Library, TemplateError, TemplateErrorKind};
use jiff::Timestamp;

/// Opened when somebody asks for a template that is not the host's own programs.
#[derive(Debug)]
struct OnDisk {
    data_dir: PathBuf,
    library: OnceLock<Library>,
}

/// The library of a data directory.
pub(crate) fn on_disk(data_dir: PathBuf) -> SharedLibrary {
    Arc::new(OnDisk { data_dir, library: OnceLock::new() })
}

/// Removes what pulls and imports that were killed have left in a data directory. Where nobody ever had
/// a template there is nothing to look at, and nothing is made.
pub(crate) fn sweep(data_dir: &Path) {
    if !data_dir.join("images").exists() {
        return;
    }
    match Library::open(data_dir).and_then(|library| library.sweep()) {
        Ok(0) => {}
        Ok(drafts) => tracing::info!(drafts, "removed what was left half-made of templates"),
        Err(error) => tracing::warn!(
            error = %error.internal,
            "what was left half-made of templates could not be removed"
        ),
    }
}

impl OnDisk {
    fn open(&self) -> Result<&Library, Error> {
        if let Some(library) = self.library.get() {
            return Ok(library);
        }
        let opened = Library::open(&self.data_dir).map_err(failure)?;
        Ok(self.library.get_or_init(|| opened))
    }
}

impl TemplateLibrary for OnDisk {
    fn list(&self) -> Result<Vec<Template>, Error> {
        Ok(self.open()?.list().map_err(failure)?.iter().map(template).collect())
    }

    fn hold(&self, name: &str) -> Result<Option<HeldTemplate>, Error> {
        let library = self.open()?;
        let Some(held) = library.hold(name).map_err(failure)? else { return Ok(None) };
        let Some(found) = held.template() else { return Ok(None) };
        let template = template(found);
        let trees = held.layers().iter().map(|id| library.layer_tree(id)).collect();
        Ok(Some(HeldTemplate { template, trees, hold: Box::new(held) }))
    }

    fn hold_layers(&self, layers: &[String]) -> Result<Option<Box<dyn Any + Send + Sync>>, Error> {
        let id = |text: &String| {
            text.parse::<LayerId>().map_err(|error| Error::internal("a recorded layer", &error))
        };
        let ids = layers.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        let held = self.open()?.hold_layers(&ids).map_err(failure)?;
        Ok(held.map(|held| Box::new(held) as Box<dyn Any + Send + Sync>))
    }
}

fn template(found: &holm_template::Template) -> Template {
    let config = &found.config;
    Template {
        name: found.name.clone(),
        source: found.source.clone(),
        layers: found.layers.iter().map(LayerId::to_string).collect(),
        bytes: found.bytes,
        created_at: i64::try_from(found.created)
            .ok()
            .and_then(|second| Timestamp::from_second(second).ok()),
        config: TemplateConfig {
            env: config.env.clone(),
            user: config.user.clone(),
            workdir: config.workdir.clone(),
            entrypoint: config.entrypoint.clone(),
            cmd: config.cmd.clone(),
        },
    }
}

fn failure(error: TemplateError) -> Error {
    let kind = match error.kind {
        TemplateErrorKind::OtherIds | TemplateErrorKind::BadName => ErrorKind::InvalidArgument,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, error.message).with_internal(error.internal)
}
