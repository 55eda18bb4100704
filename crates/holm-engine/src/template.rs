//! What sandboxes are made from: the host's own programs, or a template of the library.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use holm_runtime::Root;
use holm_store::KeyScope;
use holm_wire::guest::{Image, TRUSTED};
use jiff::Timestamp;

use crate::text::shorten;
use crate::{Engine, Error, ErrorKind, env};

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
    /// Whose commands are meant where a caller names nobody.
    pub user: String,
    /// Where commands start.
    pub workdir: String,
    /// What the image's own program is. Nothing starts it by itself.
    pub entrypoint: Vec<String>,
    /// Its arguments.
    pub cmd: Vec<String>,
}

/// What a new sandbox is made from.
#[derive(Debug)]
pub(crate) struct Base {
    /// What is recorded of it.
    pub name: String,
    pub held: Option<HeldTemplate>,
}

impl Base {
    pub fn root(&self) -> Root {
        match &self.held {
            None => Root::Host,
            Some(held) => Root::Layers(held.trees.clone()),
        }
    }

    /// Where commands start unless the caller says otherwise.
    pub fn workdir(&self) -> Option<&str> {
        let config = &self.held.as_ref()?.template.config;
        // As an image may have it: nothing, or relative to the root.
        config.workdir.as_deref().filter(|workdir| workdir.starts_with('/'))
    }

    /// What the guest is to do in the image. `trust` is what its programs are to trust besides.
    pub fn image(&self, trust: Option<&str>) -> Option<Image> {
        let config = &self.held.as_ref()?.template.config;
        Some(Image {
            user: config.user.clone().unwrap_or_default(),
            authority: trust.unwrap_or_default().to_owned(),
        })
    }

    /// The template's variables below those of the caller.
    pub fn add_to(&self, variables: &mut BTreeMap<String, String>) {
        let Some(held) = &self.held else { return };
        for (name, value) in &held.template.config.env {
            let fits = name.len() + value.len() < env::MAX_ENTRY;
            // What could not reach a command: an image may hold anything.
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') || !fits {
                continue;
            }
            variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// The file of certificates that its programs are told of where they are to trust the gate.
    pub fn bundle(&self) -> &'static str {
        if self.held.is_some() { TRUSTED } else { env::BUNDLE }
    }
}

impl Engine {
    /// What a create makes its sandbox from. Held from here on.
    pub(crate) async fn base(&self, asked: Option<&str>) -> Result<Base, Error> {
        let settings = &self.inner.settings;
        let asked = asked.unwrap_or(&settings.default_template);
        if let Some(name) = settings.templates.get(asked) {
            return Ok(Base { name: name.clone(), held: None });
        }
        let name = asked.to_owned();
        match self.library(move |library| library.hold(&name)).await? {
            Some(Some(held)) => Ok(Base { name: held.template.name.clone(), held: Some(held) }),
            _ => Err(self.unknown(asked).await),
        }
    }

    /// What a sandbox that goes on stands on: the template of that name if it still is of these
    /// layers, else the layers. One whose layers are gone goes on with what it has.
    pub(crate) async fn hold_again(
        &self,
        name: String,
        layers: Vec<String>,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        if layers.is_empty() {
            return None;
        }
        let ask = move |library: &dyn TemplateLibrary| match library.hold(&name) {
            Ok(Some(held)) if held.template.layers == layers => Ok(Some(held.hold)),
            _ => library.hold_layers(&layers),
        };
        let problem = match self.library(ask).await {
            Ok(Some(Some(hold))) => return Some(hold),
            Ok(_) => "they are not there".to_owned(),
            Err(error) => error.internal.unwrap_or(error.public),
        };
        tracing::error!(problem, "the layers of a sandbox that runs cannot be held");
        None
    }

    /// All templates: the host's own first, then those of the library by name.
    ///
    /// # Errors
    /// `forbidden` without a scope to read; `internal` when they cannot be read.
    pub async fn template_list(&self) -> Result<Vec<TemplateView>, Error> {
        self.caller.needs(KeyScope::Read)?;
        let made = self.library(TemplateLibrary::list).await?.unwrap_or_default();
        Ok(std::iter::once(self.of_host()).chain(made.into_iter().map(view)).collect())
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
        settings.templates.keys().cloned().chain(made.into_iter().map(|one| one.name)).collect()
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
    async fn library<T: Send + 'static>(
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
            workdir: crate::plan::WORKDIR.to_owned(),
            entrypoint: Vec::new(),
            cmd: Vec::new(),
        }
    }
}

fn view(template: Template) -> TemplateView {
    let workdir = template.config.workdir.filter(|workdir| workdir.starts_with('/'));
    let user = template.config.user.filter(|user| !user.is_empty());
    TemplateView {
        name: template.name,
        aliases: Vec::new(),
        source: template.source,
        layers: template.layers,
        bytes: template.bytes,
        created_at: template.created_at,
        env: template.config.env.into_keys().collect(),
        user: user.unwrap_or_else(|| "root".to_owned()),
        workdir: workdir.unwrap_or_else(|| crate::plan::WORKDIR.to_owned()),
        entrypoint: template.config.entrypoint,
        cmd: template.config.cmd,
    }
}

/// A library as settings have it.
pub type SharedLibrary = Arc<dyn TemplateLibrary>;
