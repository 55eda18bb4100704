//! What an operator may set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holm_gate::{EgressPolicy, Uplink};
use holm_runtime::Shape;
use holm_store::{KeyHasher, NodeId, Sealer};

use crate::faults::Faults;
use crate::{Error, HostCapacity, LifetimeRules, Prices, Rate, SharedLibrary, Sizes};

/// Settings of an engine. `EngineSettings::default()` is the embedded form.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Sandboxes of one account that may exist at once, those being made or removed included,
    /// where the account has no limit of its own.
    pub max_sandboxes: usize,
    /// The same for all accounts together, on this machine.
    pub max_sandboxes_here: usize,
    /// How long sandboxes may live.
    pub lifetime: LifetimeRules,
    /// What small, medium and large mean.
    pub sizes: Sizes,
    /// What the host has; sizes are held against it.
    pub host: HostCapacity,
    /// Names for the host's own programs: alias → name.
    pub templates: BTreeMap<String, String>,
    /// All other templates; without it there are none.
    pub library: Option<SharedLibrary>,
    /// Snapshots that one account may have.
    pub max_snapshots: usize,
    /// Bytes of all of them: of what their sandboxes had written.
    pub max_snapshot_bytes: u64,
    /// The certificate (PEM) with which the gate speaks for hosts to sandboxes that have secrets.
    pub authority: Option<Arc<str>>,
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
    /// Most bytes of a file that is written part by part. The sandbox's disk bounds it as well.
    pub max_upload: u64,
    /// Bytes of memory for answers that have much of a sandbox in them, until their clients have
    /// read them; one account has at most half of it.
    pub answer_room: u64,
    /// How long an answer waits for it.
    pub answer_wait: Duration,
    /// Most time one file call may take as a whole.
    pub file_deadline: Duration,
    /// Ended sandboxes that are remembered, so that later calls can say why they ended.
    pub history: usize,
    /// How often missed timers and failed removals are made up for.
    pub sweep_interval: Duration,
    /// How long a sandbox that stopped answering is given before it counts as lost.
    pub guest_patience: Duration,
    /// What a second costs.
    pub prices: Prices,
    /// What a second costs of a sandbox that is paused.
    pub paused_prices: Prices,
    /// What prices are counted in.
    pub currency: String,
    /// How often what runs is charged, and written down to be alive.
    pub meter_interval: Duration,
    /// How long sandboxes go on when their account has nothing left.
    pub balance_grace: Duration,
    /// Below which balance webhooks are told that it runs low, in micro-units; 0 for never.
    pub low_balance: i64,
    /// Under which id this engine's sandboxes are recorded; two engines never share one.
    pub node: NodeId,
    /// The kernel's boot id.
    pub boot_id: String,
    /// Makes hashes of API keys; without it no key exists.
    pub keys: Option<KeyHasher>,
    /// How often one key may ask.
    pub key_rate: Rate,
    /// Who is told what happens.
    pub webhooks: Vec<String>,
    /// Namespace numbers of the host by name (`user`, `mnt` …); a sandbox must differ from them.
    pub host_namespaces: BTreeMap<String, u64>,
    /// Time since some moment of this boot, by a clock that nobody can set; leases go on by it over
    /// a restart of the engine.
    pub clock: fn() -> Duration,
    /// What a sandbox may reach whose creator says nothing, where this host has gates.
    pub network: EgressPolicy,
    /// Where gates lead to; without it no sandbox has one.
    pub uplink: Option<Arc<Uplink>>,
    /// Seals accounts' secrets; without it there are none.
    pub sealer: Option<Sealer>,
    /// Failures to inject, for tests.
    #[doc(hidden)]
    pub faults: Faults,
}

fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // It never is before its beginning.
    Duration::try_from(now).unwrap_or_default()
}

/// Empty where the system does not tell.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

impl Default for EngineSettings {
    fn default() -> Self {
        let templates = [("host", "host"), ("base", "host")];
        Self {
            max_sandboxes: 20,
            max_sandboxes_here: 1000,
            lifetime: LifetimeRules::EMBEDDED,
            sizes: Sizes::default(),
            host: HostCapacity::detect(),
            templates: templates.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            library: None,
            max_snapshots: 20,
            max_snapshot_bytes: 20 << 30,
            authority: None,
            default_template: "host".to_owned(),
            driver_name: "linux".to_owned(),
            exec_timeout: Duration::from_secs(60),
            code_timeout: Duration::from_secs(30),
            output_limit: 1 << 20,
            max_read: 16 << 20,
            max_write: 64 << 20,
            max_upload: 16 << 30,
            answer_room: 256 << 20,
            answer_wait: Duration::from_secs(5),
            file_deadline: Duration::from_secs(120),
            history: 1000,
            sweep_interval: Duration::from_secs(5),
            guest_patience: Duration::from_secs(30),
            prices: Prices::default(),
            paused_prices: Prices::default(),
            currency: "USD".to_owned(),
            meter_interval: Duration::from_secs(10),
            balance_grace: Duration::from_secs(60),
            low_balance: 1_000_000,
            node: NodeId::ZERO,
            boot_id: boot_id(),
            keys: None,
            key_rate: Rate::UNLIMITED,
            webhooks: Vec::new(),
            host_namespaces: crate::measure::host_namespaces(),
            clock: monotonic,
            network: EgressPolicy::open(),
            uplink: None,
            sealer: None,
            faults: Faults::default(),
        }
    }
}

impl EngineSettings {
    /// Whether a create that asks for this template gets the host's own programs.
    #[must_use]
    pub fn is_of_host(&self, template: Option<&str>) -> bool {
        self.templates.contains_key(template.unwrap_or(&self.default_template))
    }

    /// Whether nothing costs anything.
    #[must_use]
    pub fn are_free(&self) -> bool {
        self.prices.are_zero() && self.paused_prices.are_zero()
    }

    /// What a sandbox of that size is like; of the default size where none is named.
    ///
    /// # Errors
    /// When there is no such size, or the host is too small for it.
    pub fn shape(&self, size: Option<&str>) -> Result<Shape, Error> {
        let chosen = self.sizes.choose(size, None, None, &self.host)?;
        Ok(crate::size::shape(&chosen.given))
    }

    /// The form for a multi-tenant service: lifetimes from one minute.
    #[must_use]
    pub fn service() -> Self {
        Self { lifetime: LifetimeRules::SERVICE, ..Self::default() }
    }
}
