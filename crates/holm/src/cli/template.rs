//! Arguments of `holm template`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `holm template`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TemplateArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: TemplateAction,
}

/// What can be done with templates.
#[derive(Debug, Subcommand)]
pub enum TemplateAction {
    /// Make a template of an image or a root file system on this host
    ///
    /// PATH is an OCI image layout (a directory or an archive), what `docker save` writes, or a root
    /// file system: a tar file, also packed with gzip or zstd, or a directory. Layers that another
    /// template has already are shared.
    #[command(verbatim_doc_comment)]
    Import(TemplateImportArgs),
    /// Make a template of an image in a registry
    ///
    /// IMAGE names its registry, as registry.example.com/repository:tag or with @ and a digest; of an image for
    /// several platforms the one for this machine is taken. Layers that are here already are not fetched.
    #[command(verbatim_doc_comment)]
    Pull(TemplatePullArgs),
    /// List templates
    List(TemplateListArgs),
    /// Show a template: its layers, and how programs start in it
    Show(TemplateShowArgs),
    /// Remove a template that is not in use; `holm template prune` frees its layers
    Rm(TemplateRmArgs),
    /// Free layers that no template has and no sandbox uses, and what broken imports left
    Prune(TemplatePruneArgs),
}

/// Where templates are.
#[derive(Debug, Default, Args)]
pub struct TemplatePlaceArgs {
    /// Directory for the database, secrets, disk images and layers
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Settings file (default: config.toml in the data directory)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holm template import`.
#[derive(Debug, Args)]
pub struct TemplateImportArgs {
    /// The template's name
    pub name: String,

    /// The image or root file system
    pub path: PathBuf,

    /// Which image, where there are several
    #[arg(long = "ref", value_name = "REF")]
    pub reference: Option<String>,

    /// Take the place of the template of that name; sandboxes that run keep what they have
    #[arg(long)]
    pub replace: bool,

    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

/// Arguments of `holm template pull`.
#[derive(Debug, Args)]
pub struct TemplatePullArgs {
    /// The template's name
    pub name: String,

    /// The image
    pub image: String,

    /// Who we are at the registry
    #[arg(long, value_name = "USER", requires = "password_file")]
    pub user: Option<String>,

    /// File with the password, or a token
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,

    /// Host that is asked before the image's own. May be repeated
    #[arg(long, value_name = "HOST")]
    pub mirror: Vec<String>,

    /// Reach registries without TLS, where everybody on the way can change what comes
    #[arg(long)]
    pub insecure: bool,

    /// Take the place of the template of that name; sandboxes that run keep what they have
    #[arg(long)]
    pub replace: bool,

    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

/// Arguments of `holm template list`.
#[derive(Debug, Args)]
pub struct TemplateListArgs {
    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

/// Arguments of `holm template show`.
#[derive(Debug, Args)]
pub struct TemplateShowArgs {
    /// Its name
    pub name: String,

    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

/// Arguments of `holm template rm`.
#[derive(Debug, Args)]
pub struct TemplateRmArgs {
    /// Its name
    pub name: String,

    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

/// Arguments of `holm template prune`.
#[derive(Debug, Args)]
pub struct TemplatePruneArgs {
    /// Where templates are.
    #[command(flatten)]
    pub place: TemplatePlaceArgs,
}

const EXAMPLES: &str = "\
The built-in template is `host` (also `base`): what this host has, nothing to import.

Examples:
  holm template import debian ./debian-layout
  docker save alpine:3 > alpine.tar && holm template import alpine alpine.tar
  holm template pull tools registry.example.com/team/tools:1.2
  debootstrap stable ./root && holm template import mine ./root
  holm template list
  holm template rm debian && holm template prune";
