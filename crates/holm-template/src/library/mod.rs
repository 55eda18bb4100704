//! Templates and layers on disk.
//!
//! | path below the data directory | what it is |
//! | --- | --- |
//! | `images/templates/NAME.json` | a template; a shared lock on it holds the template |
//! | `images/templates/OWNER@NAME.json` | a snapshot, likewise |
//! | `images/layers/HEX/tree` | a layer as an overlay takes it |
//! | `images/layers/HEX/layer.json` | what the layer is; a shared lock on the directory holds the layer |
//! | `images/drafts/…` | what is being made or removed, locked by who does; of the dead, swept |
//!
//! Every change is one rename. What is in `layers` and `templates` is complete.

mod draft;
mod held;
mod layer;
mod prune;
mod snapshot;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{Attempt as _, Result, TemplateError, TemplateErrorKind};
use crate::id::LayerId;
use crate::template::{self, Template};

pub(crate) use draft::{Confined, Draft, run};
pub use held::Held;
pub(crate) use layer::{Facts, LayerLock};
pub use prune::Pruned;
pub use snapshot::{NewSnapshot, Written};

/// Longest record that is read.
const MAX_RECORD: u64 = 1 << 20;

/// The templates of a data directory. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Library {
    images: PathBuf,
    program: PathBuf,
}

impl Library {
    /// Opens the library of a data directory, and makes what is missing of it.
    ///
    /// # Errors
    /// When it cannot be made, or another user could change it.
    pub fn open(data_dir: &Path) -> Result<Self> {
        holm_runtime::make_data_dir(data_dir)?;
        let images = data_dir.join("images");
        // For the owner alone, also where the data directory is not: there are set-id programs in it.
        for dir in ["", "templates", "layers", "drafts"] {
            match DirBuilder::new().mode(0o700).create(images.join(dir)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error).tried("make a directory of templates");
                }
                _ => {}
            }
        }
        Ok(Self { images, program: "/proc/self/exe".into() })
    }

    /// The same with another program for confined workers than this one.
    #[must_use]
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// A template by its name.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Template>> {
        if template::check_name(name).is_err() {
            return Ok(None);
        }
        self.get_record(name, name)
    }

    /// What is recorded in a file, and is called `name`.
    fn get_record(&self, file: &str, name: &str) -> Result<Option<Template>> {
        match File::open(self.template_path(file)) {
            Ok(file) => read_template(file, name).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).tried("open a template"),
        }
    }

    /// Names of all records, of templates and of snapshots.
    fn record_names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = names(&self.images.join("templates"))?
            .into_iter()
            .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Everything that is recorded.
    fn recorded(&self) -> Result<Vec<Template>> {
        let mut all = Vec::new();
        for name in self.record_names()? {
            // One that goes meanwhile is not there.
            all.extend(self.get_record(&name, &name)?);
        }
        Ok(all)
    }

    /// All templates, by name.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn list(&self) -> Result<Vec<Template>> {
        let mut all = Vec::new();
        for name in self.record_names()? {
            // One that goes meanwhile is not there; a snapshot is no template.
            all.extend(self.get(&name)?);
        }
        Ok(all)
    }

    /// Where a layer's files are.
    #[must_use]
    pub fn layer_tree(&self, id: &LayerId) -> PathBuf {
        self.layer_dir(id).join("tree")
    }

    /// Removes a template. Its layers stay until [`Library::prune`]. False when there is none.
    ///
    /// # Errors
    /// When it is held.
    pub fn remove(&self, name: &str) -> Result<bool> {
        template::check_name(name)?;
        self.remove_record(name, &format!("the template `{name}`"))
    }

    /// Removes what is recorded in a file; `what` is what it is called.
    fn remove_record(&self, file: &str, what: &str) -> Result<bool> {
        let path = self.template_path(file);
        loop {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error).tried("open a template"),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    return Err(TemplateError::new(
                        TemplateErrorKind::InUse,
                        format!("{what} is in use; end its sandboxes first"),
                    ));
                }
                other => other.tried("lock a template")?,
            }
            if same_file(&file, &path)? {
                fs::remove_file(&path).tried("remove a template")?;
                return Ok(true);
            }
        }
    }

    /// Records a template whose layers are all held by `locks`.
    pub(crate) fn record(
        &self,
        template: &Template,
        replace: bool,
        _locks: &[LayerLock],
    ) -> Result<()> {
        match self.write_record(template, &template.name, replace) {
            Ok(None) => Err(exists(&template.name)),
            other => other.map(drop),
        }
    }

    /// Records it in a file, which the answer holds. None when there is one.
    fn write_record(&self, template: &Template, file: &str, replace: bool) -> Result<Option<File>> {
        let text = serde_json::to_vec_pretty(template)
            .map_err(|error| TemplateError::internal(format!("write a template: {error}")))?;
        let draft = Draft::make(self)?;
        let path = draft.path().join("template");
        fs::write(&path, text).tried("write a template")?;
        let record = File::open(&path).tried("write a template")?;
        record.sync_all().tried("write a template")?;
        // Before anybody can find it.
        flock(&record, FlockOperation::NonBlockingLockShared).tried("lock a template")?;
        let to = self.template_path(file);
        let flags = if replace {
            rustix::fs::RenameFlags::empty()
        } else {
            rustix::fs::RenameFlags::NOREPLACE
        };
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, &path, cwd, &to, flags) {
            Err(Errno::EXIST) => return Ok(None),
            other => other.tried("record a template")?,
        }
        sync_dir(&self.images.join("templates"));
        Ok(Some(record))
    }

    /// Refuses a name that is taken, before any work is done for it.
    pub(crate) fn check_free(&self, name: &str, replace: bool) -> Result<()> {
        template::check_name(name)?;
        if !replace && self.template_path(name).exists() {
            return Err(exists(name));
        }
        Ok(())
    }

    fn template_path(&self, name: &str) -> PathBuf {
        self.images.join("templates").join(format!("{name}.json"))
    }

    fn layer_dir(&self, id: &LayerId) -> PathBuf {
        self.images.join("layers").join(id.hex())
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }
}

fn exists(name: &str) -> TemplateError {
    TemplateError::new(
        TemplateErrorKind::Exists,
        format!("there is a template `{name}` already; remove it first, or replace it"),
    )
}

fn read_template(file: File, name: &str) -> Result<Template> {
    let mut template: Template = read_record(file)?;
    // The file's name is what counts.
    name.clone_into(&mut template.name);
    Ok(template)
}

fn read_record<T: serde::de::DeserializeOwned>(file: File) -> Result<T> {
    use std::io::Read as _;
    let mut text = Vec::new();
    file.take(MAX_RECORD).read_to_end(&mut text).tried("read a record")?;
    serde_json::from_slice(&text)
        .map_err(|error| TemplateError::internal(format!("read a record: {error}")))
}

/// True while a path still leads to the open file.
fn same_file(file: &File, path: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let own = file.metadata().tried("look at a file")?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((own.dev(), own.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).tried("look at a file"),
    }
}

/// Names in one of our own directories; all are ours and text.
fn names(dir: &Path) -> Result<Vec<String>> {
    let list = fs::read_dir(dir).tried("list templates")?;
    let mut names = Vec::new();
    for entry in list {
        names.extend(entry.tried("list templates")?.file_name().into_string());
    }
    Ok(names)
}

/// A rename outlives a loss of power. Where it does not, the old state is whole as well.
fn sync_dir(dir: &Path) {
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}
