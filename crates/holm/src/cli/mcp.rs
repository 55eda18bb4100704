//! Arguments of `holm mcp`.

use clap::Args;

/// Serve sandboxes to an agent: an MCP server on standard input and output
///
/// The engine is embedded: no service, no key, no network. Sandboxes that a client makes end with
/// this process. Standard output carries protocol lines only; the log goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct McpArgs {
    /// Use the embedded engine also when a key or a URL of a service is in the environment
    #[arg(long)]
    pub local: bool,

    /// Template of sandboxes that name none (default: host)
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,

    /// Most sandboxes that may run at once (default: 20)
    #[arg(long, value_name = "COUNT")]
    pub max_sandboxes: Option<usize>,
}

const EXAMPLES: &str = "\
Examples:
  claude mcp add holm -- /path/to/holm mcp
  printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}' | holm mcp
  HOLM_LOG=debug holm mcp 2>holm.log";
