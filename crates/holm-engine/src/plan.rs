//! A create request, judged: what will be made, or why not.

use std::collections::BTreeMap;
use std::time::Duration;

use holm_gate::EgressPolicy;
use holm_runtime::SandboxSpec;
use holm_store::{Account, Idempotency, Pause, Record, Traffic};
use holm_wire::guest::Configure;
use jiff::Timestamp;

use crate::base::Base;
use crate::secret::Picked;
use crate::{
    Caller, CreateSandbox, EngineSettings, Error, LifetimeRules, SandboxId, SandboxState, account,
    env, files, idempotency, network,
};

/// Most labels, and most bytes of all of them.
const MAX_LABELS: usize = 64;
const MAX_LABEL_BYTES: usize = 64 << 10;
/// Where commands start unless the caller says otherwise.
pub(crate) const WORKDIR: &str = "/workspace";

/// Everything decided about a sandbox before anything of it exists.
#[derive(Debug)]
pub(crate) struct Plan {
    pub record: Record,
    pub spec: SandboxSpec,
    pub configure: Configure,
    pub idempotency: Option<Idempotency>,
    /// The longest life from ready.
    pub max_life: Duration,
    /// What its account's sandboxes may reach at most.
    pub ceiling: Option<EgressPolicy>,
    /// Whether the caller asked for its network.
    pub network_asked: bool,
}

impl Plan {
    pub fn new(
        settings: &EngineSettings,
        caller: &Caller,
        account: &Account,
        no_gate: Option<&str>,
        secrets: &Picked,
        base: &Base,
        request: CreateSandbox,
    ) -> Result<Self, Error> {
        let idempotency = idempotency::read(&request)?;
        let chosen = settings.sizes.choose(
            request.size.as_deref(),
            request.cpu,
            request.memory_mb,
            &settings.host,
        )?;
        let lifetimes = lifetimes(settings, account);
        let lifetime = lifetimes.check(request.timeout)?;
        let network = network::choose(settings, no_gate, account, request.network)?;
        if let Some(name) = &request.name {
            account::check_name(name)?;
        }
        check_labels(&request.metadata)?;
        env::check(&request.env)?;
        let mut variables =
            if network.is_none() { env::without_network(request.env) } else { request.env };
        secrets.add_to(&mut variables, base.bundle())?;
        base.add_to(&mut variables);
        let trusted = settings.authority.as_deref().filter(|_| !secrets.is_empty());
        if let Some(workdir) = &request.workdir {
            files::check_path("workdir", workdir)?;
            if !workdir.starts_with('/') {
                return Err(Error::invalid("workdir must be an absolute path"));
            }
        }
        let id = SandboxId::random()?;
        let hostname = hostname(request.name.as_deref(), &id);
        let given = chosen.given;
        Ok(Self {
            spec: SandboxSpec {
                id: id.to_string(),
                hostname: hostname.clone(),
                root: base.root(),
                vcpus: given.vcpus,
                memory_bytes: given.memory_bytes(),
                disk_bytes: given.disk_bytes(),
                disk_inodes: given.disk_inodes,
                max_processes: given.max_processes,
                mounts: request.mounts,
            },
            configure: Configure {
                hostname,
                env: variables,
                workdir: request
                    .workdir
                    .unwrap_or_else(|| base.workdir().unwrap_or(WORKDIR).to_owned()),
                max_processes: given.max_processes,
                image: base.image(trusted),
            },
            record: Record {
                id,
                account_id: account.id,
                node_id: settings.node,
                key_id: caller.key,
                session: caller.session.clone(),
                name: request.name,
                template: base.name.clone(),
                size: chosen.name,
                given,
                vcpus_asked: chosen.vcpus_asked,
                metadata: request.metadata,
                lifetime,
                price_per_second: settings.prices.get(chosen.name),
                pause: Pause {
                    price_per_second: settings.paused_prices.get(chosen.name),
                    after: request.auto_pause,
                    auto_resume: request.auto_resume.unwrap_or(true),
                    ..Pause::default()
                },
                state: SandboxState::Provisioning,
                created_at: Timestamp::now(),
                ready_at: None,
                expires_at: None,
                ended: None,
                metered_until: None,
                network: network.own.to_json(),
                secrets: secrets.placeholders.clone(),
                traffic: Traffic::default(),
                adoption: None,
                version: 0,
            },
            idempotency,
            max_life: lifetimes.max,
            ceiling: network.ceiling,
            network_asked: network.asked,
        })
    }
}

/// The rules for an account: where it has a limit of its own, that holds, up to the service's.
pub(crate) fn lifetimes(settings: &EngineSettings, account: &Account) -> LifetimeRules {
    let rules = settings.lifetime;
    let own = account.limits.max_lifetime.unwrap_or(rules.max);
    let max = own.clamp(rules.min, rules.max);
    LifetimeRules { default: rules.default.min(max), max, ..rules }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    let bytes: usize = labels.iter().map(|(key, value)| key.len() + value.len()).sum();
    if labels.len() > MAX_LABELS || bytes > MAX_LABEL_BYTES {
        return Err(Error::invalid(format!(
            "metadata may have {MAX_LABELS} entries and {MAX_LABEL_BYTES} bytes in all"
        )));
    }
    Ok(())
}

/// The name where it is a host name, else one made of the id.
fn hostname(name: Option<&str>, id: &SandboxId) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match name {
        Some(name)
            if name.len() <= 63
                && name.chars().all(plain)
                && !name.starts_with('-')
                && !name.ends_with('-') =>
        {
            name.to_owned()
        }
        _ => format!("sbx-{}", id.digits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn check(request: CreateSandbox, want: Result<&str, (ErrorKind, &str)>) {
        let host = crate::HostCapacity { cpus: 8, memory_bytes: 64 << 30 };
        let settings = EngineSettings { host, ..EngineSettings::default() };
        let caller = Caller::local();
        let account = Account::new(caller.account, "local");
        let base = Base::host("host".to_owned());
        let picked = Picked::default();
        match (Plan::new(&settings, &caller, &account, None, &picked, &base, request), want) {
            (Ok(plan), Ok("")) => {
                assert_eq!(plan.spec.hostname, format!("sbx-{}", plan.record.id.digits()));
            }
            (Ok(plan), Ok(hostname)) => assert_eq!(plan.spec.hostname, hostname),
            (Err(error), Err((kind, part))) => {
                assert_eq!(error.kind, kind, "{error}");
                assert!(error.public.contains(part), "{error} lacks {part}");
            }
            (got, want) => panic!("{got:?} instead of {want:?}"),
        }
    }

    fn named(name: &str) -> CreateSandbox {
        CreateSandbox { name: Some(name.to_owned()), ..CreateSandbox::default() }
    }

    #[test]
    fn names_become_host_names_where_they_can() {
        check(CreateSandbox::default(), Ok(""));
        check(named("web-1"), Ok("web-1"));
        check(named("Ein Name"), Ok(""));
        check(named("-x"), Ok(""));
    }

    #[test]
    fn bad_arguments_are_named() {
        let bad = ErrorKind::InvalidArgument;
        check(named(""), Err((bad, "name must")));
        check(named("a\nb"), Err((bad, "name must")));
        check(named(&"x".repeat(65)), Err((bad, "name must")));
        let metadata = (0..65).map(|n| (n.to_string(), String::new())).collect();
        check(CreateSandbox { metadata, ..Default::default() }, Err((bad, "metadata")));
        let workdir = Some("a\0".to_owned());
        check(CreateSandbox { workdir, ..Default::default() }, Err((bad, "workdir")));
    }
}
