//! What the service looks like from outside.

use holm_gate::{EgressPolicy, Mode};

use crate::{Engine, Language, Limits, ServiceInfo, Size, SizeName, env};

impl Engine {
    /// What this engine offers and what is enforced on this host.
    pub async fn service_info(&self) -> ServiceInfo {
        let templates = self.template_names().await;
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
            paused_prices: SizeName::ALL
                .map(|name| (name, settings.paused_prices.get(name)))
                .to_vec(),
            pause: self.inner.driver.pausing(),
            currency: settings.currency.clone(),
            templates,
            default_template: settings.default_template.clone(),
            network_default: match self.inner.no_gate() {
                None => settings.network.clone(),
                Some(_) => EgressPolicy::none(),
            },
            languages: Language::ALL.to_vec(),
            network: self.network_text(),
        }
    }

    /// What sandboxes may reach, for people and models.
    fn network_text(&self) -> String {
        let always = "Refused always: this host, private, link-local and other special addresses, \
            cloud metadata.";
        let default = &self.inner.settings.network;
        if let Some(mend) = self.inner.no_gate() {
            return format!("none (loopback only): this host gives no egress gate. {mend}");
        }
        match default.mode {
            Mode::None => format!("none unless asked for. {always}"),
            Mode::Open => {
                format!("{} unless asked otherwise: public addresses. {always}", shown(default))
            }
            Mode::Allow => format!("{} unless asked otherwise. {always}", shown(default)),
        }
    }
}

/// A policy that may be long.
fn shown(policy: &EgressPolicy) -> String {
    crate::text::shorten(&policy.to_string(), 300)
}
