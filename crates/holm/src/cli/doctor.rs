//! Arguments of `holm doctor`.

use clap::Args;

/// Arguments of `holm doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holm doctor
  holm doctor --json | python3 -m json.tool";
