//! Arguments of `holm serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `holm serve`.
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address to listen at (default: 127.0.0.1)
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,

    /// Port to listen at; 0 takes a free one (default: 9000)
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// Directory for the database, secrets, disk images and layers
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// sqlite, or postgres://… for a PostgreSQL server (default: sqlite, in the data directory)
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,

    /// How clients are let in (default: token where one is set, else keys)
    #[arg(long, value_name = "MODE", value_enum)]
    pub auth: Option<AuthMode>,

    /// Template of sandboxes that name none (default: host)
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,

    /// Most sandboxes that may run at once (default: 20)
    #[arg(long, value_name = "COUNT")]
    pub max_sandboxes: Option<usize>,

    /// What becomes of sandboxes when the service is stopped (default: keep)
    #[arg(long, value_name = "WHAT", value_enum)]
    pub on_stop: Option<OnStop>,
}

/// What becomes of sandboxes when the service is stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum OnStop {
    /// They go on, and the next start takes them over
    #[default]
    Keep,
    /// They are destroyed
    End,
}

/// How clients are let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMode {
    /// Whoever sends an API key of an account
    Keys,
    /// Whoever sends the token of HOLM_AUTH_TOKEN
    Token,
    /// Everybody who reaches the port; on loopback only
    None,
}

const EXAMPLES: &str = "\
Examples:
  holm serve                                on http://127.0.0.1:9000/mcp, with API keys
  holm serve --bind 0.0.0.0 --data-dir /srv/holm
  HOLM_DATABASE=postgres://holm@db.example/holm holm serve
  holm serve --auth none                    for every program on this machine";
