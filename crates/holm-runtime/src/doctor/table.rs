//! Fills the table of layers from what was seen.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cgroup::Ability;
use crate::driver::{Enforcement, Layer, LayerState, Pausing};
use crate::failure::Failure;
use crate::ids::{INSIDE, IdMap};
use crate::jail::KEPT;
use crate::message::{Created, Facts};
use crate::network::Gate;
use crate::step::Step;
use crate::sys;

/// A sandbox's PID 1, seen from the host.
pub(super) struct Observed {
    /// Kinds of namespaces that are not ours.
    namespaces: BTreeSet<&'static str>,
    status: String,
    uid_map: String,
    mounts: String,
    gate: Gate,
}

impl Observed {
    pub(super) fn of(sandbox: &Created) -> Self {
        let dir = PathBuf::from(format!("/proc/{}", sandbox.pid));
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        let own = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        let differs = |kind: &&str| {
            let theirs = std::fs::read_link(dir.join("ns").join(kind)).ok();
            theirs.is_some() && theirs != own(kind)
        };
        let kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
        Self {
            namespaces: kinds.into_iter().filter(differs).collect(),
            status: read("status"),
            uid_map: read("uid_map"),
            mounts: read("mountinfo"),
            gate: sandbox.gate.clone(),
        }
    }

    /// False when the process ended before or while it was looked at.
    pub(super) fn is_whole(&self) -> bool {
        let texts = [&self.status, &self.uid_map, &self.mounts];
        texts.iter().all(|text| !text.is_empty()) && self.namespaces.contains("pid")
    }

    fn status(&self, key: &str) -> &str {
        let line = self.status.lines().find_map(|line| line.strip_prefix(key));
        line.map_or("", |value| value.trim_start_matches(':').trim())
    }

    /// Options of the last mount at a path.
    fn mount(&self, path: &str) -> Option<(&str, &str)> {
        self.mounts.lines().rev().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let kind = line.split_once(" - ")?.1.split(' ').next()?;
            (fields.get(4) == Some(&path)).then_some((*fields.get(5)?, kind))
        })
    }
}

/// One row before it is complete.
struct Row {
    enforced: bool,
    by: String,
    mend: Option<String>,
}

fn yes(by: impl Into<String>) -> Row {
    Row { enforced: true, by: by.into(), mend: None }
}

fn no(by: impl Into<String>, mend: impl Into<String>) -> Row {
    Row { enforced: false, by: by.into(), mend: Some(mend.into()) }
}

const ALL: [Layer; 21] = [
    Layer::UserNamespace,
    Layer::OwnIdRange,
    Layer::MountNamespace,
    Layer::PidNamespace,
    Layer::NetNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::PivotRoot,
    Layer::MaskedProc,
    Layer::Seccomp,
    Layer::Landlock,
    Layer::NoNewPrivileges,
    Layer::Capabilities,
    Layer::DiskLimit,
    Layer::InodeLimit,
    Layer::ProcessLimit,
    Layer::MemoryLimit,
    Layer::CpuLimit,
    Layer::HiddenHostFiles,
    Layer::EgressGate,
];

fn is_mandatory(layer: Layer) -> bool {
    // Without a gate there is no way out at all.
    let spared = [Layer::CgroupNamespace, Layer::EgressGate];
    !spared.contains(&layer) && !Layer::EXCUSABLE.contains(&layer)
}

/// The table of a host where a launcher works.
pub(super) fn fill(
    facts: &Facts,
    seen: Option<&Observed>,
    failure: Option<&Failure>,
    missing: &[(Layer, String)],
) -> Enforcement {
    let row = |layer: Layer| {
        if let Some((_, mend)) = missing.iter().find(|(missing, _)| *missing == layer) {
            return no("refused by the kernel", mend.as_str());
        }
        match (seen, failure) {
            (Some(seen), _) => judge(layer, facts, seen),
            (None, Some(failure)) => judge_failed(layer, facts, failure, !missing.is_empty()),
            (None, None) => no("not tried", "Run holm doctor again."),
        }
    };
    Enforcement {
        mode: mode(),
        layers: ALL.into_iter().map(|l| state(l, row(l))).collect(),
        pause: pausing(facts),
    }
}

/// Whether sandboxes can be paused; as [`by_facts`].
pub(crate) fn pausing(facts: &Facts) -> Pausing {
    match &facts.cgroups {
        Some((version, abilities)) if abilities.contains(&Ability::Freeze) => {
            Pausing { possible: true, by: format!("cgroup {version} freezer"), mend: None }
        }
        _ => Pausing {
            possible: false,
            by: "no cgroup freezer".to_owned(),
            mend: Some(CGROUP_MEND.to_owned()),
        },
    }
}

/// A layer of which the launcher's facts and this user's rights tell.
pub(super) fn foresee(layer: Layer, facts: &Facts) -> LayerState {
    let row = match layer {
        Layer::OwnIdRange if crate::ids::is_machine_root() => yes("an own range for each"),
        Layer::OwnIdRange if crate::ids::for_user().is_single() => no_id_range(),
        Layer::OwnIdRange => yes("subordinate ids of the user"),
        layer => by_facts(layer, facts),
    };
    state(layer, row)
}

/// The table of a host where not even a launcher works.
pub(super) fn unusable(failure: &Failure) -> Enforcement {
    let by = format!("not tried: {}", failure.internal);
    let row = |layer| state(layer, no(by.as_str(), failure.public.as_str()));
    let layers = ALL.into_iter().map(row).collect();
    let mend = Some(failure.public.clone());
    let pause = Pausing { possible: false, by: "not tried".to_owned(), mend };
    Enforcement { mode: mode(), layers, pause }
}

fn state(layer: Layer, row: Row) -> LayerState {
    let mandatory = is_mandatory(layer);
    LayerState { layer, enforced: row.enforced, mandatory, by: row.by, mend: row.mend }
}

fn mode() -> String {
    if crate::ids::is_machine_root() {
        return "root".into();
    }
    match crate::ids::for_user() {
        IdMap::Subordinate { .. } => "rootless with subordinate ids".into(),
        _ => "rootless".into(),
    }
}

/// From a running sandbox.
fn judge(layer: Layer, facts: &Facts, seen: &Observed) -> Row {
    let namespace = |kind: &str| {
        if seen.namespaces.contains(kind) {
            yes("Linux namespace")
        } else {
            no("shared with the host", "Use a kernel with all kinds of namespaces.")
        }
    };
    match layer {
        Layer::UserNamespace => namespace("user"),
        Layer::MountNamespace => namespace("mnt"),
        Layer::PidNamespace => namespace("pid"),
        Layer::NetNamespace => namespace("net"),
        Layer::IpcNamespace => namespace("ipc"),
        Layer::UtsNamespace => namespace("uts"),
        Layer::CgroupNamespace => namespace("cgroup"),
        Layer::OwnIdRange => id_range(&seen.uid_map),
        Layer::PivotRoot => match seen.mount("/") {
            Some((_, "overlay")) => yes("pivot_root to an overlay"),
            _ => no("the root is not ours", "Report this as a fault of holm."),
        },
        Layer::MaskedProc => match seen.mount("/proc/sys") {
            Some((options, _)) if options.starts_with("ro") => yes("own /proc, parts covered"),
            _ => no("/proc/sys is writable", "Report this as a fault of holm."),
        },
        Layer::Seccomp => match seen.status("Seccomp") {
            "2" => yes("allow list, unknown calls refused"),
            _ => no("no filter", "Use a kernel with CONFIG_SECCOMP_FILTER."),
        },
        Layer::NoNewPrivileges => match seen.status("NoNewPrivs") {
            "1" => yes("no_new_privs"),
            _ => no("not set", "Report this as a fault of holm."),
        },
        Layer::Capabilities => {
            let bits = u64::from_str_radix(seen.status("CapBnd"), 16).unwrap_or(u64::MAX);
            if bits & !KEPT.bits() == 0 {
                yes(format!("bounding set of {}", bits.count_ones()))
            } else {
                no(format!("bounding set {bits:x}"), "Report this as a fault of holm.")
            }
        }
        Layer::EgressGate => gate(&seen.gate),
        _ => by_facts(layer, facts),
    }
}

fn gate(gate: &Gate) -> Row {
    match gate {
        Gate::Both => yes("nf_tables rules in the sandbox's network, IPv4 and IPv6"),
        Gate::V4 => yes("nf_tables rules in the sandbox's network, IPv4 alone"),
        Gate::Missing(why) => no(
            format!("sandboxes have loopback and no way out ({why})"),
            "Use a kernel with nf_tables and its address translation, and load its modules \
             (modprobe -a nf_tables nft_ct nft_redir nft_reject_inet nft_limit).",
        ),
    }
}

fn id_range(uid_map: &str) -> Row {
    let lines: Vec<Vec<u32>> = uid_map
        .lines()
        .map(|line| line.split_whitespace().filter_map(|n| n.parse().ok()).collect())
        .collect();
    match lines.as_slice() {
        [only] if only.get(2) == Some(&INSIDE) => yes("65,535 ids of its own"),
        [_, ..] if lines.len() > 1 => yes("subordinate ids of the user; root inside is the user"),
        _ => no_id_range(),
    }
}

fn no_id_range() -> Row {
    no(
        "only the user's own id; everything runs as `sandbox`",
        "Install newuidmap (Debian: apt install uidmap) and give the user a range in \
         /etc/subuid and /etc/subgid, or run as root.",
    )
}

/// How a host comes to give cgroups.
const CGROUP_MEND: &str = "Run as root on a host with writable cgroups, or as a user to whom systemd \
                           has delegated the controllers (Delegate=yes).";

/// Layers that the launcher decides about before a sandbox is made.
fn by_facts(layer: Layer, facts: &Facts) -> Row {
    let (version, abilities) = facts.cgroups.clone().unwrap_or_default();
    let problems = facts.cgroup_problems.join("; ");
    let cgroup = |ability: Ability, name: &str| {
        if abilities.contains(&ability) {
            return yes(format!("cgroup {version} {name}"));
        }
        no(if problems.is_empty() { "nothing".to_owned() } else { problems.clone() }, CGROUP_MEND)
    };
    match layer {
        Layer::MemoryLimit => cgroup(Ability::Memory, "memory"),
        Layer::CpuLimit => cgroup(Ability::Cpu, "cpu"),
        Layer::ProcessLimit => {
            let row = cgroup(Ability::Processes, "pids");
            if row.enforced {
                return row;
            }
            Row {
                enforced: true,
                by: "RLIMIT_NPROC of each user inside, for want of a cgroup (see memory limit)"
                    .into(),
                mend: row.mend,
            }
        }
        Layer::DiskLimit | Layer::InodeLimit => match &facts.disk_in_memory {
            None => yes("ext4 image on a loop device"),
            Some(why) => Row {
                enforced: true,
                by: format!("size-limited tmpfs, counted as memory ({why})"),
                mend: Some("Run as root, with e2fsprogs and loop devices.".into()),
            },
        },
        Layer::Landlock => match sys::thread::landlock_level() {
            level @ 2.. => yes(format!("Landlock level {level}, for each command")),
            level => no(
                format!("Landlock level {level}"),
                "Use Linux 5.19 or later with landlock in the kernel parameter lsm=.",
            ),
        },
        Layer::HiddenHostFiles if crate::ids::is_machine_root() => {
            yes("covered by a layer above the host's trees")
        }
        Layer::HiddenHostFiles => yes("the kernel: the host's owners are not mapped"),
        _ => no("not seen", "Run holm doctor again."),
    }
}

/// When no sandbox could be made: blame the layer whose step failed.
fn judge_failed(layer: Layer, facts: &Facts, failure: &Failure, namespaces_fail: bool) -> Row {
    let blamed = match failure.step {
        Some(Step::Clone | Step::IdMap) if !namespaces_fail => Some(Layer::UserNamespace),
        Some(Step::Image | Step::Disk) => Some(Layer::DiskLimit),
        Some(Step::Template) => Some(Layer::HiddenHostFiles),
        Some(Step::Staging | Step::Overlay | Step::Layers) => Some(Layer::MountNamespace),
        Some(Step::Kernel) => Some(Layer::MaskedProc),
        Some(Step::Pivot) => Some(Layer::PivotRoot),
        Some(Step::Loopback) => Some(Layer::NetNamespace),
        Some(Step::Gate) => Some(Layer::EgressGate),
        Some(Step::Identity) => Some(Layer::UtsNamespace),
        Some(Step::Privileges) => Some(Layer::Capabilities),
        Some(Step::Seccomp) => Some(Layer::Seccomp),
        Some(Step::Cgroup | Step::Join | Step::Limits) => Some(Layer::ProcessLimit),
        _ => None,
    };
    if blamed == Some(layer) {
        return no(failure.internal.as_str(), failure.public.as_str());
    }
    match layer {
        Layer::MemoryLimit
        | Layer::CpuLimit
        | Layer::ProcessLimit
        | Layer::DiskLimit
        | Layer::InodeLimit
        | Layer::Landlock => by_facts(layer, facts),
        Layer::UserNamespace
        | Layer::MountNamespace
        | Layer::PidNamespace
        | Layer::NetNamespace
        | Layer::IpcNamespace
        | Layer::UtsNamespace
        | Layer::CgroupNamespace => yes("Linux namespace, tried alone"),
        _ => no(
            format!("not reached: {}", failure.internal),
            "Mend what failed before it, then run holm doctor again.",
        ),
    }
}
