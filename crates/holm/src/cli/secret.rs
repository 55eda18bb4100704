//! Arguments of `holm secret`.

use clap::{Args, Subcommand};

use super::AdminArgs;

/// Arguments of `holm secret`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SecretArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: SecretAction,
}

/// What can be done with secrets.
#[derive(Debug, Subcommand)]
pub enum SecretAction {
    /// Put a secret, in the place of the one of that name; its value comes from standard input
    Set(SecretSetArgs),
    /// List secrets by name, without their values
    List(SecretListArgs),
    /// Remove a secret
    Rm(SecretRmArgs),
}

/// Arguments of `holm secret set`.
#[derive(Debug, Args)]
pub struct SecretSetArgs {
    /// Its name, also the variable that stands for it in sandboxes
    pub name: String,

    /// Where it may be sent: a name or *.name, also with a port. May be repeated
    #[arg(long, value_name = "HOST", required = true)]
    pub host: Vec<String>,

    /// In which header (default: authorization and x-api-key). May be repeated
    #[arg(long, value_name = "HEADER")]
    pub header: Vec<String>,

    /// Send it also over http, where everybody on the way can read it
    #[arg(long)]
    pub allow_plaintext: bool,

    /// Whose it is: the account's id, or its name if only one has it. Through a service it is the
    /// account of the key
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm secret list`.
#[derive(Debug, Args)]
pub struct SecretListArgs {
    /// Whose: the account's id, or its name if only one has it. Through a service it is the account
    /// of the key
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm secret rm`.
#[derive(Debug, Args)]
pub struct SecretRmArgs {
    /// Its name
    pub name: String,

    /// Whose it is: the account's id, or its name if only one has it. Through a service it is the
    /// account of the key
    #[arg(long, value_name = "ACCOUNT")]
    pub account: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

const EXAMPLES: &str = "\
The value is read from standard input, or asked for at a terminal; it is never an argument, which
others on the machine could see.

Examples:
  holm secret set GITHUB_TOKEN --host api.github.com --account first < token
  printf %s \"$KEY\" | holm secret set OPENAI_API_KEY --host api.openai.com --account first
  holm secret list --account first
  HOLM_API_KEY=$(cat my.key) holm secret rm GITHUB_TOKEN --url https://holm.example.com";
