//! Every static check in one go.

use std::process::Command;

use crate::{generate, shell, tidy};

/// Where `./test` installs the tools that are not part of the toolchain.
const TOOLS: &str = ".venv-tools/bin";

pub fn run() -> Result<(), String> {
    shell::run(shell::cargo().args(["fmt", "--all", "--check"]))?;
    tidy::run()?;
    let lints = ["clippy", "--workspace", "--release", "--all-targets", "--locked"];
    shell::run(shell::cargo().args(lints).args(["--", "-D", "warnings"]))?;
    generate::run(true)?;
    deny()
}

/// Licences, bans and sources; advisories need a database from the network and are left to a
/// scheduled job.
fn deny() -> Result<(), String> {
    let own = shell::root().join(TOOLS).join("cargo-deny");
    let program = if own.is_file() { own } else { "cargo-deny".into() };
    let mut command = Command::new(program);
    command.current_dir(shell::root());
    command.args(["--locked", "--all-features", "check", "--hide-inclusion-graph"]);
    shell::run(command.args(["licenses", "bans", "sources"]))
}
