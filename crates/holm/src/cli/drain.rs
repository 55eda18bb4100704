//! Arguments of `holm drain`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `holm drain`.
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct DrainArgs {
    /// Directory of the service
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Its database, as for `holm serve` (default: sqlite, in the data directory)
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  systemctl stop holm && holm drain
  holm drain --data-dir /srv/holm";
