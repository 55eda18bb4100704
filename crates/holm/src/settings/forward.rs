//! Settings of `holm forward`.

use holm_engine::SandboxId;

use super::RemoteSettings;
use crate::cli::ForwardArgs;
use crate::env_vars::Environment;
use crate::exit::Failure;

/// Resolved settings.
#[derive(Debug)]
pub struct ForwardSettings {
    /// The service.
    pub remote: RemoteSettings,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Ports here and there.
    pub ports: Vec<(u16, u16)>,
}

impl ForwardSettings {
    /// Resolves arguments and environment.
    ///
    /// # Errors
    /// When no service is named, or a value is wrong.
    pub fn resolve(arguments: ForwardArgs, environment: &Environment) -> Result<Self, Failure> {
        let sandbox = arguments.sandbox.parse::<SandboxId>();
        let sandbox = sandbox.map_err(|error| Failure::usage(format!("the sandbox {error}")))?;
        let remote = RemoteSettings::required(environment)?;
        Ok(Self { remote, sandbox, ports: arguments.ports })
    }
}
