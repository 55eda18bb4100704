//! What sandboxes are made from: the host's own programs, or a template of the library.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use holm_store::{KeyScope, Record};
use jiff::Timestamp;

use crate::base::Base;
use crate::copy::{NewSnapshot, Written};
use crate::text::shorten;
use crate::{Engine, Error, ErrorKind};

/// Most names that an error lists.
const MAX_LISTED: usize = 30;
/// What the template is called that is the host's own programs.
pub(crate) const HOST: &str = "host";

/// Templates that were made from images. The calls block, so the engine makes them beside its loop.
pub trait TemplateLibrary: fmt::Debug + Send + Sync + 'static {
    /// All of them, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    fn list(&self) -> Result<Vec<Template>, Error>;

    /// One, with everything that it is made of, which stays as long as the answer lives.
    ///
    /// # Errors
    /// When it cannot be read or used.
    fn hold(&self, name: &str) -> Result<Option<HeldTemplate>, Error>;

    /// Layers of a sandbox that runs, whatever is by now of the template that it was made from. Not
    /// there: somebody has removed them by force.
    ///
    /// # Errors
    /// When they cannot be read.
    fn hold_layers(&self, layers: &[String]) -> Result<Option<Box<dyn Any + Send + Sync>>, Error>;

    /// Makes a snapshot of what a sandbox has written, and holds it. None where its owner has one of that name. Leaves
    /// nothing where it fails, or nobody waits any more.
    ///
    /// # Errors
    /// `too_large`, `invalid_argument` for a name or a file that cannot be kept, `capacity` when the disk
    /// is full.
    fn snapshot_make(
        &self,
        _snapshot: NewSnapshot,
        _written: Written,
    ) -> Result<Option<HeldTemplate>, Error> {
        Err(Error::new(ErrorKind::Unavailable, "this library keeps no snapshots"))
    }

    /// An owner's, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    fn snapshots(&self, _owner: &str) -> Result<Vec<Template>, Error> {
        Ok(Vec::new())
    }

    /// Like [`Self::hold`], of an owner's snapshots.
    ///
    /// # Errors
    /// When it cannot be read or used.
    fn snapshot_hold(&self, _owner: &str, _name: &str) -> Result<Option<HeldTemplate>, Error> {
        Ok(None)
    }

    /// Removes one, and what nothing else needs of it. False where there is none.
    ///
    /// # Errors
    /// `conflict` while it is held.
    fn snapshot_remove(&self, _owner: &str, _name: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// Removes what the dead have left, and unlisted snapshots that nobody holds: of an owner, or of all.
    ///
    /// # Errors
    /// When something cannot be removed.
    fn sweep(&self, _owner: Option<&str>) -> Result<(), Error> {
        Ok(())
    }
}

/// A template of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Where it comes from, for people.
    pub source: String,
    /// Digests of its layers, the lowest one first.
    pub layers: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// What its image says about its programs.
    pub config: TemplateConfig,
    /// Its layers lie over the host's own programs.
    pub on_host: bool,
    /// Of a snapshot: bytes of what was written to make it.
    pub written: Option<u64>,
}

/// What a sandbox stands on, for copies of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Digests of layers, the lowest one first.
    pub layers: Vec<String>,
    /// They lie over the host's own programs, or there are none of them.
    pub on_host: bool,
    /// How programs start in it.
    pub config: TemplateConfig,
    /// The name of the copy that keeps the layers of a fork.
    pub(crate) copy: Option<String>,
}

/// See [`Template::config`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateConfig {
    /// Variables of all programs.
    pub env: BTreeMap<String, String>,
    /// Who runs them: a name or number, also with a group; root where nothing is said.
    pub user: Option<String>,
    /// Where they start.
    pub workdir: Option<String>,
    /// What the image's own program is.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub cmd: Vec<String>,
}

/// A template in use.
pub struct HeldTemplate {
    /// What it is.
    pub template: Template,
    /// Directories of its layers on the host, the lowest one first.
    pub trees: Vec<PathBuf>,
    /// Its layers stay while this is there.
    pub hold: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for HeldTemplate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HeldTemplate").field("template", &self.template).finish_non_exhaustive()
    }
}

/// A template as callers see it. Values of an image's variables are not shown: they may be secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateView {
    /// Its name.
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Where it comes from, for people.
    pub source: String,
    /// Digests of its layers, the lowest one first.
    pub layers: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// When it was made; the host's own is as old as the host.
    pub created_at: Option<Timestamp>,
    /// Names of the variables that it sets.
    pub env: Vec<String>,
    /// Whether it is a snapshot of the caller's account, which nobody else sees.
    pub snapshot: bool,
    /// Whose commands are meant where a caller names nobody.
    pub user: String,
    /// Where commands start.
    pub workdir: String,
    /// What the image's own program is. Nothing starts it by itself.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub cmd: Vec<String>,
}

impl Engine {
    /// What a create makes its sandbox from. Held from here on.
    pub(crate) async fn base(&self, asked: Option<&str>) -> Result<Base, Error> {
        let settings = &self.inner.settings;
        let asked = asked.unwrap_or(&settings.default_template);
        if let Some(name) = settings.templates.get(asked) {
            return Ok(Base::host(name.clone()));
        }
        // One's own is nearer than everybody's; what is not listed cannot be asked for.
        if !asked.starts_with('.')
            && let Some(held) = self.hold_snapshot(asked).await?
        {
            return Ok(Base::template(held));
        }
        let name = asked.to_owned();
        match self.library(move |library| library.hold(&name)).await? {
            Some(Some(held)) => Ok(Base::template(held)),
            _ => Err(self.unknown(asked).await),
        }
    }

    /// What a sandbox that goes on stands on: the copy, snapshot or template of that name if it still is
    /// of these layers, else the layers. One whose layers are gone goes on with what it has. Adds to
    /// `standing` what is known of the template.
    pub(crate) async fn hold_again(
        &self,
        record: &Record,
        standing: &mut Standing,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        if standing.layers.is_empty() {
            return None;
        }
        let (owner, layers) = (record.account_id.to_string(), standing.layers.clone());
        let (name, copy) = (record.template.clone(), standing.copy.clone());
        let ask = move |library: &dyn TemplateLibrary| {
            let own = library.snapshot_hold(&owner, copy.as_ref().unwrap_or(&name));
            for held in [own, library.hold(&name)] {
                match held {
                    Ok(Some(held)) if held.template.layers == layers => {
                        return Ok(Some((held.hold, held.template.config)));
                    }
                    _ => {}
                }
            }
            let held = library.hold_layers(&layers)?;
            Ok(held.map(|hold| (hold, TemplateConfig::default())))
        };
        let problem = match self.library(ask).await {
            Ok(Some(Some((hold, config)))) => {
                standing.config = config;
                return Some(hold);
            }
            Ok(_) => "they are not there".to_owned(),
            Err(error) => error.internal.unwrap_or(error.public),
        };
        tracing::error!(problem, "the layers of a sandbox that runs cannot be held");
        None
    }

    /// All templates: the host's own first, then those of the library by name, then the account's own
    /// snapshots.
    ///
    /// # Errors
    /// `forbidden` without a scope to read; `internal` when they cannot be read.
    pub async fn template_list(&self) -> Result<Vec<TemplateView>, Error> {
        self.caller.needs(KeyScope::Read)?;
        let made = self.library(TemplateLibrary::list).await?.unwrap_or_default();
        let owner = self.caller.account.to_string();
        let own = self.library(move |library| library.snapshots(&owner)).await?;
        let own = own.unwrap_or_default();
        let hidden = |one: &Template| own.iter().any(|snapshot| snapshot.name == one.name);
        let made: Vec<_> = made.into_iter().filter(|one| !hidden(one)).map(view).collect();
        let own = own.into_iter().map(view);
        Ok(std::iter::once(self.of_host()).chain(made).chain(own).collect())
    }

    /// One of them, also by another name.
    ///
    /// # Errors
    /// `template_unknown`; else as for [`Self::template_list`].
    pub async fn template_get(&self, name: &str) -> Result<TemplateView, Error> {
        let all = self.template_list().await?;
        let named =
            |view: &TemplateView| view.name == name || view.aliases.iter().any(|a| a == name);
        match all.into_iter().find(named) {
            Some(view) => Ok(view),
            None => Err(self.unknown(name).await),
        }
    }

    /// Where commands of a new sandbox start whose creator does not say.
    ///
    /// # Errors
    /// As for [`Self::template_get`].
    pub async fn template_workdir(&self, asked: Option<&str>) -> Result<String, Error> {
        let settings = &self.inner.settings;
        if settings.is_of_host(asked) {
            return Ok(crate::plan::WORKDIR.to_owned());
        }
        Ok(self.template_get(asked.unwrap_or(&settings.default_template)).await?.workdir)
    }

    /// Names that a create may ask for.
    pub(crate) async fn template_names(&self) -> Vec<String> {
        let settings = &self.inner.settings;
        let made = self.library(TemplateLibrary::list).await;
        let made = made.ok().flatten().unwrap_or_default();
        let owner = self.caller.account.to_string();
        let own = self.library(move |library| library.snapshots(&owner)).await;
        let own = own.ok().flatten().unwrap_or_default();
        let all = made.into_iter().chain(own).map(|one| one.name);
        settings.templates.keys().cloned().chain(all).collect()
    }

    async fn unknown(&self, asked: &str) -> Error {
        let mut known = self.template_names().await;
        let more = known.len().saturating_sub(MAX_LISTED);
        known.truncate(MAX_LISTED);
        let mut list = known.join(", ");
        if more > 0 {
            list.push_str(&format!(" and {more} more"));
        }
        let text = format!("there is no template {:?}; there are: {list}", shorten(asked, 60));
        Error::new(ErrorKind::TemplateUnknown, text)
    }

    /// Asks the library, if there is one, where it may block.
    pub(crate) async fn library<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn TemplateLibrary) -> Result<T, Error> + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let Some(library) = self.inner.settings.library.clone() else { return Ok(None) };
        let asked = tokio::task::spawn_blocking(move || ask(&*library)).await;
        asked.unwrap_or_else(|lost| Err(Error::internal("templates", &lost))).map(Some)
    }

    fn of_host(&self) -> TemplateView {
        let known = self.inner.settings.templates.iter();
        let aliases = known.filter(|(alias, name)| *name == HOST && *alias != HOST);
        TemplateView {
            name: HOST.to_owned(),
            aliases: aliases.map(|(alias, _)| alias.clone()).collect(),
            source: "this host's own programs".to_owned(),
            layers: Vec::new(),
            bytes: 0,
            created_at: None,
            env: Vec::new(),
            user: holm_wire::guest::DEFAULT_USER.to_owned(),
            snapshot: false,
            workdir: crate::plan::WORKDIR.to_owned(),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
        }
    }
}

fn view(template: Template) -> TemplateView {
    let workdir = template.config.workdir.filter(|workdir| workdir.starts_with('/'));
    let user = template.config.user.filter(|user| !user.is_empty());
    let usual = if template.on_host { holm_wire::guest::DEFAULT_USER } else { "root" };
    TemplateView {
        name: template.name,
        aliases: Vec::new(),
        source: template.source,
        layers: template.layers,
        bytes: template.bytes,
        created_at: template.created_at,
        env: template.config.env.into_keys().collect(),
        user: user.unwrap_or_else(|| usual.to_owned()),
        snapshot: template.written.is_some(),
        workdir: workdir.unwrap_or_else(|| crate::plan::WORKDIR.to_owned()),
        entrypoint: template.config.entrypoint,
        cmd: template.config.cmd,
    }
}

/// A library as settings have it.
pub type SharedLibrary = Arc<dyn TemplateLibrary>;
