//! Argument structs. Nothing here reads the environment or does anything.

mod account;
mod config;
mod cp;
mod doctor;
mod drain;
mod forward;
mod key;
mod mcp;
mod port;
mod run;
mod secret;
mod serve;
mod service;
mod small;
mod template;

pub use account::{
    AccountAction, AccountArgs, AccountCreateArgs, AccountListArgs, AccountSetArgs,
    AccountTopupArgs,
};
pub use config::ConfigArgs;
pub use cp::CpArgs;
pub use doctor::DoctorArgs;
pub use drain::DrainArgs;
pub use forward::ForwardArgs;
pub use key::{KeyAction, KeyArgs, KeyCreateArgs, KeyListArgs, KeyRevokeArgs};
pub use mcp::McpArgs;
pub use port::{PortAction, PortArgs, PortExposeArgs, PortListArgs, PortUnexposeArgs};
pub use run::RunArgs;
pub use secret::{SecretAction, SecretArgs, SecretListArgs, SecretRmArgs, SecretSetArgs};
pub use serve::{AuthMode, OnStop, ServeArgs};
pub use service::{AdminArgs, ServiceArgs};
pub use small::{CompletionsArgs, VersionArgs};
pub use template::{
    TemplateAction, TemplateArgs, TemplateImportArgs, TemplateListArgs, TemplatePlaceArgs,
    TemplatePruneArgs, TemplatePullArgs, TemplateRmArgs, TemplateShowArgs,
};

use clap::{Parser, Subcommand};

/// Disposable, isolated Linux machines for AI agents.
#[derive(Debug, Parser)]
#[command(
    name = "holm",
    version,
    propagate_version = false,
    disable_help_subcommand = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  holm run -- python3 -c 'print(6*7)'     run one command in a sandbox of its own
  holm mcp                                serve sandboxes to an agent over stdio
  holm serve                              serve them to many clients over HTTP
  holm doctor                             show which layers of isolation this host gives";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one command in a new sandbox, then remove the sandbox
    ///
    /// Standard input, output and error are passed through byte by byte. When both standard
    /// input and standard output are terminals, the command gets a terminal too. The sandbox is
    /// removed when the command ends, however it ends, also when holm itself is killed.
    #[command(verbatim_doc_comment)]
    Run(RunArgs),
    /// Serve sandboxes to an agent: an MCP server on standard input and output
    ///
    /// The engine is embedded: no service, no key, no network. Sandboxes that a client makes end
    /// with this process. Standard output carries protocol lines only; the log goes to standard
    /// error.
    #[command(verbatim_doc_comment)]
    Mcp(McpArgs),
    /// Serve sandboxes to many clients: an MCP server over Streamable HTTP
    ///
    /// Prints its URL and how to enter it into clients, then serves until SIGTERM or SIGINT. The
    /// first start makes an account and a key, which is kept in the file `first-key` of the data
    /// directory and shown on a terminal. At the end new work is refused and running calls finish or
    /// are told; sandboxes go on, for the next start to take over. A second signal ends it at once.
    /// The log goes to standard error.
    #[command(verbatim_doc_comment)]
    Serve(ServeArgs),
    /// Make and list the accounts of a service, and pay money in
    ///
    /// Works on the database itself, so the service may run or not; what is done counts for a
    /// running one at once. With --url, or where HOLM_URL is set, works through the service there,
    /// with an administrator's key.
    #[command(verbatim_doc_comment)]
    Account(AccountArgs),
    /// Make, list and revoke the API keys of a service
    ///
    /// Works on the database itself, so the service may run or not. With --url, or where HOLM_URL is
    /// set, works through the service there, with an administrator's key. A key that is revoked is
    /// refused from the next request on.
    #[command(verbatim_doc_comment)]
    Key(KeyArgs),
    /// Set, list and remove secrets: credentials that sandboxes can use and not read
    ///
    /// A sandbox that may use a secret has a variable of its name, whose text the egress gate replaces
    /// by the value in requests to the hosts that the secret is bound to, and nowhere else. Works on
    /// the database itself; with --url, or where HOLM_URL is set, through the service there, with a key
    /// of the account whose secrets they are.
    #[command(verbatim_doc_comment)]
    Secret(SecretArgs),
    /// Make, list, show and remove templates: what sandboxes start from
    ///
    /// A template is read-only layers and how programs start in them, from an image or a root file
    /// system. What is in an image is unpacked by a process that can reach nothing else. Works on the
    /// data directory, so a service may run or not.
    #[command(verbatim_doc_comment)]
    Template(TemplateArgs),
    /// Copy files and directories into a service's sandbox, or out of one
    Cp(CpArgs),
    /// Bring ports of a service's sandbox to this machine
    ///
    /// Listens at loopback here, and passes each connection on to a port at loopback in the sandbox
    /// of the service that HOLM_URL names, with the key in HOLM_API_KEY. The port need not be
    /// exposed. Goes on until it is interrupted or the sandbox ends.
    #[command(verbatim_doc_comment)]
    Forward(ForwardArgs),
    /// Expose ports of a service's sandbox, list them, and end that
    ///
    /// A server in a sandbox of the service that HOLM_URL names, with the key in HOLM_API_KEY, gets a
    /// URL that a person can open: private, with a link that opens it once in a browser, or public.
    #[command(verbatim_doc_comment)]
    Port(PortArgs),
    /// Print what is in force for `holm serve`, and where each value comes from
    ///
    /// Flags come before variables, variables before the settings file, the file before defaults.
    /// Secrets are not shown.
    #[command(verbatim_doc_comment)]
    Config(ConfigArgs),
    /// End all sandboxes of a service that does not run
    ///
    /// Sandboxes go on when their service ends, so that it can be started again. Before a host is
    /// shut down, or when the service shall not come back, this ends them and settles their bills.
    #[command(verbatim_doc_comment)]
    Drain(DrainArgs),
    /// Show which layers of isolation this host gives, and how to mend what is missing
    ///
    /// Exit code 0 when every mandatory layer can be had, else 1. What one sandbox really has is
    /// measured in it and told by the tool `get_sandbox`.
    #[command(verbatim_doc_comment)]
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the version
    Version(VersionArgs),
}
