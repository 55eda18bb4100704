//! Arguments of the commands that need few.

use clap::Args;
use clap_complete::Shell;

/// Arguments of `holm completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  holm completions bash > ~/.local/share/bash-completion/completions/holm"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Arguments of `holm version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
