//! `Probe`: what is really in force, measured.
//!
//! What concerns commands is told by a process that goes through every step of a command's start
//! but the last: where a command would become its program it reports itself. So no file of the
//! template can answer in its place, and settings say nothing here.

use std::collections::BTreeMap;

use holm_wire::guest::Probe;

use crate::command::plan::{Becomes, Command};
use crate::command::spawn::report;
use crate::errors::{Result, internal};
use crate::io::read_some;
use crate::state::Guest;
use crate::sys::raw;

/// Most bytes of the status text.
const MAX_STATUS: usize = 64 << 10;

/// The first measurement, with the limit of processes that was in force then.
#[derive(Debug, Default)]
pub struct First(tokio::sync::Mutex<Option<(u64, Probe)>>);

/// What was measured at the start, or is being measured; measured anew when the limit of processes
/// has changed since, which is all that the host may change about commands.
///
/// # Errors
/// When no command can be started.
pub async fn current(guest: &std::rc::Rc<Guest>) -> Result<Probe> {
    let mut first = guest.measured.0.lock().await;
    let limit = guest.settings.borrow().max_processes;
    match &*first {
        Some((then, probe)) if *then == limit => Ok(probe.clone()),
        _ => {
            let probe = measure(guest).await?;
            *first = Some((limit, probe.clone()));
            Ok(probe)
        }
    }
}

/// Measures.
///
/// # Errors
/// When no command can be started.
async fn measure(guest: &std::rc::Rc<Guest>) -> Result<Probe> {
    // No file of an image decides who is measured.
    let user = guest.users.built_in().ok_or_else(|| internal("cannot measure", "no user"))?;
    let command = Command {
        argv: vec!["probe".to_owned()],
        env: BTreeMap::new(),
        cwd: Some("/".to_owned()),
        default_cwd: "/".to_owned(),
        user,
        becomes: Becomes::Report,
    };
    let output = report(guest, &command)?;
    let mut text = Vec::new();
    let read = async {
        loop {
            let more = read_some(&output, |bytes| {
                let room = MAX_STATUS - text.len();
                text.extend_from_slice(&bytes[..bytes.len().min(room)]);
            });
            if !more.await {
                return;
            }
        }
    };
    let whole = tokio::time::timeout(std::time::Duration::from_secs(5), read).await;
    whole.map_err(|_elapsed| internal("cannot measure", "the probe did not end"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::trim).unwrap_or("").to_owned()
    };
    let hex = |name: &str| u64::from_str_radix(&field(name), 16).unwrap_or(u64::MAX);
    // The root, and not the working directory, which may be a directory of the host.
    let disk = rustix::fs::statvfs("/");
    let disk = disk.map_err(|error| internal("cannot measure the disk", error))?;
    Ok(Probe {
        namespaces: namespaces(),
        uid_map: uid_map(),
        seccomp: field("Seccomp:").parse().unwrap_or(0),
        no_new_privs: field("NoNewPrivs:") == "1",
        cap_eff: hex("CapEff:"),
        cap_bnd: hex("CapBnd:"),
        landlock_abi: if field("Landlock:") == "denied" { guest.landlock } else { 0 },
        disk_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
        disk_inodes: disk.f_files,
        max_processes: field("Max processes")
            .split_whitespace()
            .next()
            .map_or(0, |soft| soft.parse().unwrap_or(0)),
        loopback_only: loopback_only(),
        init_non_dumpable: raw::is_non_dumpable(),
    })
}

fn namespaces() -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}"));
        let text = link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default();
        let number = text.split(['[', ']']).nth(1).and_then(|number| number.parse().ok());
        if let Some(number) = number {
            found.insert(name.to_owned(), number);
        }
    }
    found
}

fn uid_map() -> Vec<(u32, u32, u32)> {
    let text = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().map_while(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next()?, numbers.next()?))
        })
        .collect()
}

fn loopback_only() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/self/net/dev") else { return false };
    text.lines().skip(2).all(|line| line.trim_start().starts_with("lo:"))
}
