//! Arguments of `holm mcp`.

use clap::Args;

/// Arguments of `holm mcp`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// Use the embedded engine also when a key or a URL of a service is in the environment
    #[arg(long)]
    pub local: bool,

    /// Template of sandboxes that name none (default: host)
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,

    /// What sandboxes may reach that say nothing: none, open, allow:NAME,… (default: open where the
    /// host has egress gates)
    #[arg(long, value_name = "POLICY")]
    pub network: Option<String>,

    /// Most sandboxes that may run at once (default: 20)
    #[arg(long, value_name = "COUNT")]
    pub max_sandboxes: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  claude mcp add holm -- /path/to/holm mcp
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}' | holm mcp
  HOLM_LOG=debug holm mcp 2>holm.log";
