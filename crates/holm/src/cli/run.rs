//! Arguments of `holm run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::settings::parse;

/// Arguments of `holm run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Root file system (default: host, this machine's own programs)
    #[arg(long, short = 't', value_name = "NAME")]
    pub template: Option<String>,

    /// Size of the sandbox (default: small)
    #[arg(long, short = 's', value_name = "SIZE", value_parser = ["small", "medium", "large"])]
    pub size: Option<String>,

    /// End the command after this time, for example 500ms, 30, 5m, 1h30m
    #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
    pub timeout: Option<Duration>,

    /// Set a variable; NAME alone takes its value from here. May be repeated
    #[arg(long, short = 'e', value_name = "NAME=VALUE")]
    pub env: Vec<String>,

    /// Directory to start in (default: /workspace)
    #[arg(long, short = 'w', value_name = "PATH")]
    pub workdir: Option<String>,

    /// Show a file or directory of the host read-only. May be repeated
    #[arg(long, value_name = "HOST:PATH")]
    pub mount_ro: Vec<String>,

    /// What it may reach: none, open (public addresses), or allow:NAME,… with names, *.names and
    /// networks, each also with a port (default: open where the host has egress gates)
    #[arg(long, value_name = "POLICY")]
    pub network: Option<String>,

    /// User inside (default: the template's; sandbox for the host's own programs)
    #[arg(long, short = 'u', value_name = "USER", value_parser = ["sandbox", "root"])]
    pub user: Option<String>,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Exit code:
  The command's own; 128+N if signal N ended it; 127 if it was not found, 126 if it could not be
  executed, 124 if --timeout ended it; 125 if holm itself failed; 2 for wrong arguments.

Signals:
  Ctrl-C, SIGTERM, SIGHUP and SIGQUIT reach the command. A second one within a second ends it;
  SIGTERM and SIGHUP end it after ten seconds in any case.

Examples:
  holm run -- python3 -c 'print(6*7)'
  holm run --timeout 30s -- python3 -c 'while True: pass'
  holm run --network allow:git.example.com -- git clone https://git.example.com/app
  holm run --mount-ro \"$PWD\":/src --workdir /src -- ls -l
  tar c . | holm run -- sh -c 'tar x && ./build.sh >&2 && tar c out' > out.tar
  holm run -- bash                        an interactive shell";
