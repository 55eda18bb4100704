//! Arguments of `holm drain`.

use clap::Args;

use super::ServiceArgs;

/// Arguments of `holm drain`.
#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct DrainArgs {
    /// Where the service's things are.
    #[command(flatten)]
    pub service: ServiceArgs,
}

const EXAMPLES: &str = "\
Examples:
  systemctl stop holm && holm drain
  holm drain --data-dir /srv/holm";
