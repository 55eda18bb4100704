//! Arguments of `holm doctor`.

use clap::Args;

/// Show which layers of isolation this host gives, and how to mend what is missing
///
/// Exit code 0 when every mandatory layer can be had, else 1. What one sandbox really has is
/// measured in it and told by the tool `get_sandbox`.
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
