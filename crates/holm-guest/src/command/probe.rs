//! `Probe`: what the guest measures about its confinement.
//!
//! What a command has is read from a process that went through every step of a command's start
//! but the last: it reports itself where a command would become its program, so that no file of
//! the template can answer in its place.

use std::collections::BTreeMap;

use holm_wire::guest::Probe;

use super::plan::Command;
use super::spawn::{Input, spawn};
use crate::errors::{Result, internal};
use crate::io::{drain, read_some};
use crate::state::{Guest, Shared};
use crate::sys::raw;

/// Most bytes that the reporting process writes: two small files of /proc.
const MAX_REPORT: usize = 16 << 10;

/// Measures.
///
/// # Errors
/// When no process can be started, or /proc cannot be read.
pub async fn probe(guest: Shared) -> Result<Probe> {
    let command = Command {
        argv: vec!["probe".to_owned()],
        env: BTreeMap::new(),
        cwd: None,
        default_cwd: guest.workdir(),
        user: guest.users.find("")?,
        report: true,
    };
    let child = spawn(&guest, &command, Input::None).await?;
    let mut report = Vec::new();
    let mut keep = |bytes: &[u8]| {
        let room = MAX_REPORT.saturating_sub(report.len());
        report.extend_from_slice(&bytes[..room.min(bytes.len())]);
    };
    while read_some(&child.stdout, &mut keep).await {}
    child.ended().await;
    drain(&child.stdout, &mut keep);
    child.detach();
    let report = String::from_utf8_lossy(&report).into_owned();
    let mut probe = of_report(&report);
    own(&guest, &mut probe).map_err(|error| internal("cannot read /proc", error))?;
    Ok(probe)
}

/// What the command's own view says.
fn of_report(report: &str) -> Probe {
    let field = |name: &str| {
        let mut lines = report.lines();
        lines.find_map(|line| line.strip_prefix(name)).map_or("", str::trim)
    };
    let hex = |name: &str| u64::from_str_radix(field(name), 16).unwrap_or(u64::MAX);
    let processes = field("Max processes").split_whitespace().next();
    Probe {
        seccomp: field("Seccomp:").parse().unwrap_or(0),
        no_new_privs: field("NoNewPrivs:") == "1",
        cap_eff: hex("CapEff:"),
        cap_bnd: hex("CapBnd:"),
        max_processes: processes.and_then(|text| text.parse().ok()).unwrap_or(0),
        ..Probe::default()
    }
}

/// What the guest sees of itself.
fn own(guest: &Guest, probe: &mut Probe) -> std::io::Result<()> {
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}"))?;
        let number = link.to_str().and_then(|text| text.split_once('[')?.1.strip_suffix(']'));
        let number = number.and_then(|text| text.parse().ok()).unwrap_or(0);
        probe.namespaces.insert(name.to_owned(), number);
    }
    for line in std::fs::read_to_string("/proc/self/uid_map")?.lines() {
        let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u32::MAX));
        if let (Some(inside), Some(outside), Some(count)) =
            (words.next(), words.next(), words.next())
        {
            probe.uid_map.push((inside, outside, count));
        }
    }
    let interfaces = std::fs::read_to_string("/proc/net/dev")?;
    let mut names = interfaces.lines().skip(2).filter_map(|line| line.split(':').next());
    probe.loopback_only = names.all(|name| name.trim() == "lo");
    let disk = rustix::fs::statvfs("/")?;
    probe.disk_bytes = disk.f_blocks.saturating_mul(disk.f_frsize);
    probe.disk_inodes = disk.f_files;
    probe.landlock_abi = guest.landlock;
    probe.init_non_dumpable = raw::is_non_dumpable();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_by_the_names_of_its_lines() {
        let probe = of_report(
            "Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t00000000000000ff\nNoNewPrivs:\t1\n\
             Seccomp:\t2\nMax processes             512   512   processes\n",
        );
        assert_eq!((probe.seccomp, probe.no_new_privs), (2, true));
        assert_eq!((probe.cap_eff, probe.cap_bnd, probe.max_processes), (0, 0xff, 512));
    }

    #[test]
    fn a_report_without_its_lines_counts_as_unconfined() {
        let probe = of_report("");
        assert_eq!((probe.seccomp, probe.no_new_privs, probe.cap_eff), (0, false, u64::MAX));
    }
}
