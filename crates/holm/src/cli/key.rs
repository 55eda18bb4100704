//! Arguments of `holm key`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::AdminArgs;
use crate::settings::parse;

/// Arguments of `holm key`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KeyArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: KeyAction,
}

/// What can be done with API keys.
#[derive(Debug, Subcommand)]
pub enum KeyAction {
    /// Make a key and print it: it is shown now or never
    Create(KeyCreateArgs),
    /// List keys, newest first
    List(KeyListArgs),
    /// Revoke a key, from the next request on and for good
    Revoke(KeyRevokeArgs),
}

/// Arguments of `holm key create`.
#[derive(Debug, Args)]
pub struct KeyCreateArgs {
    /// The account's id, or its name if only one has it
    pub account: String,

    /// What to call the key
    #[arg(long, value_name = "TEXT", default_value = "key")]
    pub name: String,

    /// What it may do: read, sandboxes, admin; a list with commas
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = "read,sandboxes",
          value_parser = ["read", "sandboxes", "admin"])]
    pub scopes: Vec<String>,

    /// Refuse it after this time, for example 30d (default: never)
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub expires_in: Option<Duration>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm key list`.
#[derive(Debug, Args)]
pub struct KeyListArgs {
    /// Only those of this account, by id or name
    pub account: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm key revoke`.
#[derive(Debug, Args)]
pub struct KeyRevokeArgs {
    /// The key's id, as `holm key list` shows it
    pub key: String,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

const EXAMPLES: &str = "\
Examples:
  HOLM_API_KEY=$(holm key create ci --name laptop)
  holm key create ops --scopes admin --expires-in 30d
  holm key list ci
  holm key revoke key_0123456789abcdef01";
