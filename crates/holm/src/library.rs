//! The library of templates, as the engine asks for it.

use std::any::Any;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use holm_engine::{
    Error, ErrorKind, HeldTemplate, NewSnapshot, SharedLibrary, Template, TemplateConfig,
    TemplateLibrary, Written,
};
use holm_template::{Held, LayerId, Library, Limits, TemplateError, TemplateErrorKind, unreadable};
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
        Ok(library.hold(name).map_err(failure)?.and_then(|found| held(library, found)))
    }

    fn hold_layers(&self, layers: &[String]) -> Result<Option<Box<dyn Any + Send + Sync>>, Error> {
        let held = self.open()?.hold_layers(&ids(layers)?).map_err(failure)?;
        Ok(held.map(|held| Box::new(held) as Box<dyn Any + Send + Sync>))
    }

    fn snapshot_make(
        &self,
        snapshot: NewSnapshot,
        written: Written,
    ) -> Result<Option<HeldTemplate>, Error> {
        let library = self.open()?;
        let config = snapshot.standing.config;
        let wanted = holm_template::NewSnapshot {
            owner: snapshot.owner,
            name: snapshot.name,
            layers: ids(&snapshot.standing.layers)?,
            on_host: snapshot.standing.on_host,
            config: holm_template::TemplateConfig {
                env: config.env,
                user: config.user,
                workdir: config.workdir,
                entrypoint: config.entrypoint,
                cmd: config.cmd,
                ..holm_template::TemplateConfig::default()
            },
            source: snapshot.source,
        };
        wanted.check().map_err(failure)?;
        let limits = Limits::default();
        let limits = Limits { bytes: limits.bytes.min(snapshot.most_bytes), ..limits };
        let given_up = written.watch();
        let whole = |written: Written| written.finish().map_err(unreadable);
        let layer = library.write_layer(written, whole, limits).map_err(failure)?;
        if given_up.is_so() {
            library.discard(layer).map_err(failure)?;
            return Err(Error::new(ErrorKind::Unavailable, "nobody waits for it any more"));
        }
        let made = library.snapshot_record(&wanted, layer).map_err(failure)?;
        if made.is_some() && given_up.is_so() {
            drop(made);
            library.snapshot_remove(&wanted.owner, &wanted.name).map_err(failure)?;
            return Err(Error::new(ErrorKind::Unavailable, "nobody waits for it any more"));
        }
        Ok(made.and_then(|made| held(library, made)))
    }

    fn snapshots(&self, owner: &str) -> Result<Vec<Template>, Error> {
        Ok(self.open()?.snapshots(owner).map_err(failure)?.iter().map(template).collect())
    }

    fn snapshot_hold(&self, owner: &str, name: &str) -> Result<Option<HeldTemplate>, Error> {
        let library = self.open()?;
        let found = library.snapshot_hold(owner, name).map_err(failure)?;
        Ok(found.and_then(|found| held(library, found)))
    }

    fn snapshot_remove(&self, owner: &str, name: &str) -> Result<bool, Error> {
        self.open()?.snapshot_remove(owner, name).map_err(failure)
    }

    fn sweep(&self, owner: Option<&str>) -> Result<(), Error> {
        let library = self.open()?;
        library.sweep().map_err(failure)?;
        library.snapshot_sweep(owner).map_err(failure)?;
        Ok(())
    }
}

fn ids(layers: &[String]) -> Result<Vec<LayerId>, Error> {
    let id = |text: &String| {
        text.parse::<LayerId>().map_err(|error| Error::internal("a recorded layer", &error))
    };
    layers.iter().map(id).collect()
}

fn held(library: &Library, held: Held) -> Option<HeldTemplate> {
    let template = template(held.template()?);
    let trees = held.layers().iter().map(|id| library.layer_tree(id)).collect();
    Some(HeldTemplate { template, trees, hold: Box::new(held) })
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
        on_host: found.on_host,
        written: found.written,
    }
}

fn failure(error: TemplateError) -> Error {
    let kind = match error.kind {
        TemplateErrorKind::OtherIds
        | TemplateErrorKind::BadName
        | TemplateErrorKind::Refused
        | TemplateErrorKind::Ids => ErrorKind::InvalidArgument,
        TemplateErrorKind::InUse | TemplateErrorKind::Exists => ErrorKind::Conflict,
        TemplateErrorKind::TooLarge => ErrorKind::TooLarge,
        TemplateErrorKind::DiskFull => ErrorKind::Capacity,
        TemplateErrorKind::Confinement => ErrorKind::IsolationUnavailable,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, error.message).with_internal(error.internal)
}
