//! `holm version`: what this is.

use serde::Serialize;

use crate::cli::VersionArgs;
use crate::exit::{self, Failure};
use crate::output;

#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
    /// The envd version whose features the guest has.
    envd_version: &'static str,
    architecture: &'static str,
}

pub(super) fn run(arguments: &VersionArgs) -> Result<u8, Failure> {
    let version = Version {
        name: "holm",
        version: env!("CARGO_PKG_VERSION"),
        envd_version: holm_wire::ENVD_VERSION,
        architecture: std::env::consts::ARCH,
    };
    if arguments.json {
        output::print_json(&version)?;
    } else {
        output::print(&format!("{} {}\n", version.name, version.version))?;
    }
    Ok(exit::SUCCESS)
}
