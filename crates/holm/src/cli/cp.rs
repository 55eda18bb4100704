//! Arguments of `holm cp`.

use clap::{ArgAction, Args};

/// Arguments of `holm cp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CpArgs {
    /// What to copy: a path here, ID:PATH in a sandbox, or - for a tar stream on standard input
    #[arg(value_name = "FROM", allow_hyphen_values = true)]
    pub from: String,

    /// Where to: ID:PATH in a sandbox, a path here, or - for a tar stream on standard output
    #[arg(value_name = "TO", allow_hyphen_values = true)]
    pub to: String,

    /// Who reads and writes in the sandbox: sandbox (default) or root
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// Show nothing of how far it is
    #[arg(long, short, action = ArgAction::SetTrue)]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  holm cp data.csv sbx_0123456789abcdef01:             into /workspace
  holm cp ./src/. sbx_0123456789abcdef01:/workspace    what is in src, not src itself
  holm cp sbx_0123456789abcdef01:report.pdf .          out again
  tar c src | holm cp - sbx_0123456789abcdef01:/tmp    a tar stream";
