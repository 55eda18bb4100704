//! One resolved struct per command: flags before environment before defaults.

mod doctor;
mod host;
mod mcp;
pub mod parse;
mod run;

pub use doctor::DoctorSettings;
pub use host::HostSettings;
pub use mcp::McpSettings;
pub use run::RunSettings;

use std::ffi::OsStr;

use crate::exit::Failure;

/// The text of a variable or argument that must be UTF-8.
fn text(name: &str, value: &OsStr) -> Result<String, Failure> {
    value.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("{name} holds bytes that are not UTF-8"))
            .hint("names and values travel as JSON; pass such bytes in a file or on standard input")
    })
}
