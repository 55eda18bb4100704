//! What a sandbox really has: the guest's measurement held against the host's own numbers.
//!
//! The guest measures right after its start, before anything of a user has run in it, so here its
//! word counts. Layers that cannot be seen from inside (limits that the host's cgroups hold, what
//! was hidden before the pivot) are taken from the driver, and limits only where the host's
//! counters of this sandbox can be read.

use std::collections::BTreeMap;

use holm_runtime::{Enforcement, Layer, LayerState, SandboxSpec, Usage};
use holm_wire::guest::Probe;

/// The layers of one sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    pub enforced: Vec<String>,
    pub missing: Vec<String>,
    /// Mandatory ones among the missing.
    pub fatal: Vec<LayerState>,
}

/// Numbers of this process's own namespaces.
pub(crate) fn host_namespaces() -> BTreeMap<String, u64> {
    let names = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
    let number = |name: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
        let text = link.to_str()?.split_once('[')?.1.strip_suffix(']')?;
        text.parse().ok()
    };
    names.iter().filter_map(|name| Some(((*name).to_owned(), number(name)?))).collect()
}

/// The host's counters of the sandbox.
pub(crate) struct Counters<'a> {
    /// The cheap one: where it can be read, memory is counted.
    pub oom_kills: Option<u64>,
    /// All of them, asked for where the guest's word is not enough.
    pub all: &'a dyn Fn() -> Usage,
}

/// Holds `probe` against the host. Only layers that the driver knows are judged.
pub(crate) fn measure(
    found: &Enforcement,
    probe: &Probe,
    host: &BTreeMap<String, u64>,
    spec: &SandboxSpec,
    counters: &Counters<'_>,
) -> Measured {
    let own = |name: &str| {
        let inside = probe.namespaces.get(name).copied().unwrap_or(0);
        inside != 0 && host.get(name) != Some(&inside)
    };
    let bounded = |measured: u64, limit: u64| measured != 0 && measured <= limit + limit / 8;
    let mut result = Measured::default();
    for row in &found.layers {
        let holds = match row.layer {
            Layer::UserNamespace => own("user"),
            Layer::MountNamespace => own("mnt"),
            Layer::PidNamespace => own("pid"),
            Layer::NetNamespace => own("net") && probe.loopback_only,
            Layer::IpcNamespace => own("ipc"),
            Layer::UtsNamespace => own("uts"),
            Layer::CgroupNamespace => own("cgroup"),
            Layer::OwnIdRange => row.enforced && has_own_range(&probe.uid_map),
            Layer::Seccomp => probe.seccomp == 2,
            Layer::Landlock => probe.landlock_abi > 0,
            Layer::NoNewPrivileges => probe.no_new_privs,
            Layer::Capabilities => probe.cap_eff == 0,
            Layer::DiskLimit => bounded(probe.disk_bytes, spec.disk_bytes),
            Layer::InodeLimit => bounded(probe.disk_inodes, spec.disk_inodes),
            Layer::ProcessLimit => {
                bounded(probe.max_processes, spec.max_processes)
                    || (counters.all)().processes.is_some()
            }
            Layer::MemoryLimit => row.enforced && counters.oom_kills.is_some(),
            Layer::CpuLimit
            | Layer::PivotRoot
            | Layer::MaskedProc
            | Layer::HiddenHostFiles
            | Layer::EgressGate => row.enforced,
        };
        let name = row.layer.to_string();
        if holds {
            result.enforced.push(name);
        } else {
            result.missing.push(name);
            if row.mandatory {
                result.fatal.push(row.clone());
            }
        }
    }
    result
}

/// More than one id is mapped, and root inside is not root outside.
fn has_own_range(map: &[(u32, u32, u32)]) -> bool {
    let count: u64 = map.iter().map(|(_, _, count)| u64::from(*count)).sum();
    count > 1 && map.iter().all(|(_, outside, _)| *outside != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec {
            id: "sbx_0123456789abcdef01".into(),
            hostname: "h".into(),
            root: holm_runtime::Root::Host,
            vcpus: 1,
            memory_bytes: 1 << 30,
            disk_bytes: 1 << 30,
            disk_inodes: 1000,
            max_processes: 100,
            mounts: Vec::new(),
        }
    }

    fn probe() -> Probe {
        Probe {
            namespaces: BTreeMap::from([("user".to_owned(), 7), ("net".to_owned(), 8)]),
            uid_map: vec![(0, 100_000, 65536)],
            seccomp: 2,
            no_new_privs: true,
            landlock_abi: 3,
            disk_bytes: 1 << 30,
            disk_inodes: 1000,
            max_processes: 100,
            loopback_only: true,
            ..Probe::default()
        }
    }

    fn check(layer: Layer, change: impl Fn(&mut Probe), want: bool) {
        let row =
            LayerState { layer, enforced: true, mandatory: true, by: String::new(), mend: None };
        let layers = vec![row];
        let found = Enforcement { mode: "root".into(), layers, ..Enforcement::default() };
        let host = BTreeMap::from([("user".to_owned(), 1), ("net".to_owned(), 2)]);
        let mut probe = probe();
        change(&mut probe);
        let none = Counters { oom_kills: None, all: &Usage::default };
        let got = measure(&found, &probe, &host, &spec(), &none);
        assert_eq!(got.enforced.len() == 1, want, "{layer:?}");
        assert_eq!(got.missing.len() == 1 && got.fatal.len() == 1, !want, "{layer:?}");
    }

    #[test]
    fn a_layer_counts_only_when_it_is_seen() {
        let no_change = |_: &mut Probe| {};
        check(Layer::UserNamespace, no_change, true);
        check(Layer::UserNamespace, |p| p.namespaces = BTreeMap::from([("user".into(), 1)]), false);
        check(Layer::PidNamespace, no_change, false);
        check(Layer::NetNamespace, no_change, true);
        check(Layer::NetNamespace, |p| p.loopback_only = false, false);
        check(Layer::OwnIdRange, no_change, true);
        check(Layer::OwnIdRange, |p| p.uid_map = vec![(1000, 1000, 1)], false);
        check(Layer::OwnIdRange, |p| p.uid_map = vec![(0, 0, 65536)], false);
        check(Layer::Seccomp, no_change, true);
        check(Layer::Seccomp, |p| p.seccomp = 0, false);
        check(Layer::Landlock, |p| p.landlock_abi = 0, false);
        check(Layer::NoNewPrivileges, |p| p.no_new_privs = false, false);
        check(Layer::Capabilities, no_change, true);
        check(Layer::Capabilities, |p| p.cap_eff = 1, false);
        check(Layer::DiskLimit, no_change, true);
        check(Layer::DiskLimit, |p| p.disk_bytes = 900 << 30, false);
        check(Layer::InodeLimit, |p| p.disk_inodes = 0, false);
        check(Layer::ProcessLimit, no_change, true);
        check(Layer::ProcessLimit, |p| p.max_processes = 0, false);
        check(Layer::MemoryLimit, no_change, false);
        check(Layer::PivotRoot, no_change, true);
    }

    #[test]
    fn this_process_has_namespace_numbers() {
        assert!(host_namespaces().values().all(|number| *number > 0));
        assert!(host_namespaces().contains_key("mnt"));
    }
}
