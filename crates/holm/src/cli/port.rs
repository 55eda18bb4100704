//! Arguments of `holm port`.

use clap::{Args, Subcommand, value_parser};

/// Arguments of `holm port`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PortArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: PortAction,
}

/// What can be done with exposed ports.
#[derive(Debug, Subcommand)]
pub enum PortAction {
    /// Give a port a URL, also before anything listens there
    Expose(PortExposeArgs),
    /// List exposed ports by number
    List(PortListArgs),
    /// End what `expose` began, with all that is open through it
    Unexpose(PortUnexposeArgs),
}

/// Arguments of `holm port expose`.
#[derive(Debug, Args)]
pub struct PortExposeArgs {
    /// The sandbox
    #[arg(value_name = "ID")]
    pub sandbox: String,

    /// Port that a server in it listens on
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub port: u16,

    /// Let everybody who has the URL look, without a token
    #[arg(long)]
    pub public: bool,

    /// Let visitors keep the sandbox alive, up to its limit
    #[arg(long)]
    pub extend_lease: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holm port list`.
#[derive(Debug, Args)]
pub struct PortListArgs {
    /// The sandbox
    #[arg(value_name = "ID")]
    pub sandbox: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `holm port unexpose`.
#[derive(Debug, Args)]
pub struct PortUnexposeArgs {
    /// The sandbox
    #[arg(value_name = "ID")]
    pub sandbox: String,

    /// The exposed port
    #[arg(value_parser = value_parser!(u16).range(1..))]
    pub port: u16,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holm port expose sbx_0123456789abcdef01 8000             prints a link that opens it once in a browser
  holm port expose sbx_0123456789abcdef01 8000 --public    prints a URL for everybody
  holm port unexpose sbx_0123456789abcdef01 8000";
