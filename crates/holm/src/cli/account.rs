//! Arguments of `holm account`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::AdminArgs;
use crate::settings::parse;

/// Arguments of `holm account`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AccountArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: AccountAction,
}

/// What can be done with accounts.
#[derive(Debug, Subcommand)]
pub enum AccountAction {
    /// Make an account
    Create(AccountCreateArgs),
    /// List accounts and what they have, newest first
    List(AccountListArgs),
    /// Give an account other limits, from now on
    Set(AccountSetArgs),
    /// Pay money in
    Topup(AccountTopupArgs),
}

/// Arguments of `holm account create`.
#[derive(Debug, Args)]
pub struct AccountCreateArgs {
    /// What to call it
    pub name: String,

    /// Most sandboxes that it may have at once (default: the service's)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_sandboxes: Option<u32>,

    /// Longest life of its sandboxes, for example 1h (default: the service's)
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub max_lifetime: Option<Duration>,

    /// What its sandboxes may reach at most: none, open, allow:NAME,… (default: what the service
    /// permits)
    #[arg(long, value_name = "POLICY")]
    pub network: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm account set`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("limits").required(true).multiple(true))]
pub struct AccountSetArgs {
    /// The account's id, or its name if only one has it
    pub account: String,

    /// Most sandboxes that it may have at once; `default` for the service's
    #[arg(long, value_name = "COUNT", group = "limits")]
    pub max_sandboxes: Option<String>,

    /// Longest life of its sandboxes, for example 1h; `default` for the service's
    #[arg(long, value_name = "DURATION", group = "limits")]
    pub max_lifetime: Option<String>,

    /// What its sandboxes may reach at most, those that run too: none, open, allow:NAME,…;
    /// `default` for what the service permits
    #[arg(long, value_name = "POLICY", group = "limits")]
    pub network: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm account list`.
#[derive(Debug, Args)]
pub struct AccountListArgs {
    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Arguments of `holm account topup`.
#[derive(Debug, Args)]
pub struct AccountTopupArgs {
    /// The account's id, or its name if only one has it
    pub account: String,

    /// How much, in the currency's unit, for example 10 or 2.50
    pub amount: String,

    /// A payment's number: the same one with the same amount counts once
    #[arg(long, value_name = "TEXT")]
    pub reference: Option<String>,

    /// Where the service is.
    #[command(flatten)]
    pub admin: AdminArgs,
}

const EXAMPLES: &str = "\
Examples:
  holm account create ci --max-sandboxes 5
  holm account set ci --network 'allow:api.example.com,*.example.org'
  holm account topup ci 10 --reference invoice-17
  holm account list --json
  HOLM_API_KEY=$(cat ops.key) holm account list --url https://holm.example.com";
