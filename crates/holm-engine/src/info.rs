//! What the service looks like from outside.

use crate::{Engine, Language, Limits, ServiceInfo, Size, SizeName, env};

impl Engine {
    /// What this engine offers and what is enforced on this host.
    #[must_use]
    pub fn service_info(&self) -> ServiceInfo {
        let settings = &self.inner.settings;
        let found = self.inner.driver.enforcement();
        let names = |enforced: bool| {
            let rows = found.layers.iter().filter(|row| row.enforced == enforced);
            rows.map(|row| row.layer.to_string()).collect()
        };
        ServiceInfo {
            name: "holm".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            driver: settings.driver_name.clone(),
            mode: found.mode.clone(),
            enforced: names(true),
            missing: names(false),
            layers: found.layers.clone(),
            limits: Limits {
                max_sandboxes: settings.max_sandboxes,
                lifetime_default: settings.lifetime.default,
                lifetime_min: settings.lifetime.min,
                lifetime_max: settings.lifetime.max,
                exec_timeout: settings.exec_timeout,
                code_timeout: settings.code_timeout,
                output_limit: settings.output_limit,
                max_read: settings.max_read,
                max_write: settings.max_write,
                max_upload: settings.max_upload,
                max_env_value: env::MAX_ENTRY,
                max_env_total: env::MAX_TOTAL,
            },
            sizes: settings
                .sizes
                .iter()
                .filter(|(_, size)| size.memory_mb <= settings.host.memory_mb())
                .map(|(name, size)| {
                    (name, Size { vcpus: size.vcpus.min(settings.host.cpus.max(1)), ..size })
                })
                .collect(),
            prices: SizeName::ALL.map(|name| (name, settings.prices.get(name))).to_vec(),
            currency: settings.currency.clone(),
            templates: settings.templates.keys().cloned().collect(),
            default_template: settings.default_template.clone(),
            languages: Language::ALL.to_vec(),
            network: "none (loopback only)".to_owned(),
        }
    }
}
