//! Arguments of `holm config`.

use clap::Args;

use super::ServeArgs;

/// Arguments of `holm config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    /// Those of `holm serve`.
    #[command(flatten)]
    pub serve: ServeArgs,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holm config
  HOLM_PORT=8000 holm config --data-dir /srv/holm --json";
