//! What an operator may set.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_runtime::Shape;

use crate::faults::Faults;
use crate::{Error, HostCapacity, LifetimeRules, Sizes};

/// Settings of an engine. `EngineSettings::default()` is the embedded form.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Sandboxes that may exist at once, those being made or removed included.
    pub max_sandboxes: usize,
    /// How long sandboxes may live.
    pub lifetime: LifetimeRules,
    /// What small, medium and large mean.
    pub sizes: Sizes,
    /// What the host has; sizes are held against it.
    pub host: HostCapacity,
    /// Templates that may be asked for: alias → name.
    pub templates: BTreeMap<String, String>,
    /// The template where the caller names none.
    pub default_template: String,
    /// Name of the driver, for service info.
    pub driver_name: String,
    /// Time limit of a command where the caller names none.
    pub exec_timeout: Duration,
    /// Time limit of code where the caller names none.
    pub code_timeout: Duration,
    /// Bytes kept of each output stream where the caller names none.
    pub output_limit: u64,
    /// Most bytes of a file that one read returns.
    pub max_read: u64,
    /// Most bytes of a file that one write takes.
    pub max_write: u64,
    /// Most time one file call may take as a whole.
    pub file_deadline: Duration,
    /// Ended sandboxes that are remembered, so that later calls can say why they ended.
    pub history: usize,
    /// How often missed timers and failed removals are made up for.
    pub sweep_interval: Duration,
    /// How long a sandbox that stopped answering is given before it counts as lost.
    pub guest_patience: Duration,
    /// Namespace numbers of the host by name (`user`, `mnt` …); a sandbox must differ from them.
    pub host_namespaces: BTreeMap<String, u64>,
    /// Failures to inject, for tests.
    #[doc(hidden)]
    pub faults: Faults,
}

impl Default for EngineSettings {
    fn default() -> Self {
        let templates = [("host", "host"), ("base", "host")];
        Self {
            max_sandboxes: 20,
            lifetime: LifetimeRules::EMBEDDED,
            sizes: Sizes::default(),
            host: HostCapacity::detect(),
            templates: templates.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            default_template: "host".to_owned(),
            driver_name: "linux".to_owned(),
            exec_timeout: Duration::from_secs(60),
            code_timeout: Duration::from_secs(30),
            output_limit: 1 << 20,
            max_read: 16 << 20,
            max_write: 64 << 20,
            file_deadline: Duration::from_secs(120),
            history: 1000,
            sweep_interval: Duration::from_secs(5),
            guest_patience: Duration::from_secs(30),
            host_namespaces: crate::measure::host_namespaces(),
            faults: Faults::default(),
        }
    }
}

impl EngineSettings {
    /// What a sandbox of that size is like; of the default size where none is named.
    ///
    /// # Errors
    /// When there is no such size, or the host is too small for it.
    pub fn shape(&self, size: Option<&str>) -> Result<Shape, Error> {
        Ok(self.sizes.choose(size, None, None, &self.host)?.given.shape())
    }

    /// The form for a multi-tenant service: lifetimes from one minute.
    #[must_use]
    pub fn service() -> Self {
        Self { lifetime: LifetimeRules::SERVICE, ..Self::default() }
    }
}
