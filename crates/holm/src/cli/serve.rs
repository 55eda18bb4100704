//! Arguments of `holm serve`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};

use super::ServiceArgs;

/// Arguments of `holm serve`.
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Where the service's things are.
    #[command(flatten)]
    pub service: ServiceArgs,

    /// Address to listen at (default: 127.0.0.1)
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<IpAddr>,

    /// Port to listen at; 0 takes a free one (default: 9000)
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,

    /// How clients are let in (default: token where one is set, else keys)
    #[arg(long, value_name = "MODE", value_enum)]
    pub auth: Option<AuthMode>,

    /// Template of sandboxes that name none (default: host)
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,

    /// Most sandboxes of one account at once (default: 20)
    #[arg(long, value_name = "COUNT")]
    pub max_sandboxes: Option<usize>,

    /// Layers of isolation that sandboxes may lack where the host does not give them: own_id_range,
    /// landlock, memory_limit, cpu_limit (default: none)
    #[arg(long, value_name = "LAYER,…")]
    pub allow_missing: Option<String>,

    /// What sandboxes may reach that say nothing: none, open, allow:NAME,… (default: open)
    #[arg(long, value_name = "POLICY")]
    pub network: Option<String>,

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

impl OnStop {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::End => "end",
        }
    }

    /// What has that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        [Self::Keep, Self::End].into_iter().find(|what| what.as_str() == text)
    }
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

impl AuthMode {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Token => "token",
            Self::None => "none",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        [Self::Keys, Self::Token, Self::None].into_iter().find(|mode| mode.as_str() == text)
    }
}

const EXAMPLES: &str = "\
Examples:
  holm serve                                on http://127.0.0.1:9000/mcp, with API keys
  holm serve --bind 0.0.0.0 --data-dir /srv/holm
  HOLM_DATABASE=postgres://holm@db.example/holm holm serve
  holm serve --auth none                    for every program on this machine";
