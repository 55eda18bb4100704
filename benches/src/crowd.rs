//! Many sandboxes at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::Result;
use crate::mcp::Mcp;
use crate::table::Table;
use crate::workspace::Workspace;

/// Creates at a time.
const WIDE: usize = 8;

/// Makes `count` sandboxes, runs something in each, and takes them down.
pub fn measure(holm: &Path, at: &Workspace, count: usize, table: &mut Table) -> Result<()> {
    let mut server = Mcp::start(holm, at, count)?;
    let before = kernel_kib()?;
    let begun = Instant::now();
    let ids = server.create_many(count, WIDE)?;
    let made = begun.elapsed().as_secs_f64();
    for id in &ids {
        server.run_true(id)?;
    }
    let guests = guests(server.pid());
    let private: u64 = guests.iter().filter_map(|pid| private_kib(*pid)).sum();
    let kernel = kernel_kib()?.saturating_sub(before);
    let begun = Instant::now();
    server.end()?;
    let ended = begun.elapsed().as_secs_f64();
    let rate = |seconds: f64| format!("{:.0} per second", count as f64 / seconds);
    let whole = format!("{} ({count}, none failed)", rate(made + ended));
    table.fact(&format!("made, {WIDE} at a time, and taken down"), &whole);
    table.fact(&format!("made alone, {WIDE} at a time"), &rate(made));
    let each = |kib: u64| format!("{} KiB", kib / count.max(1) as u64);
    table.fact(&format!("guest, private memory each, {count} alive"), &each(private));
    table.fact(&format!("kernel memory each, {count} alive"), &each(kernel));
    table.fact(&format!("{count} taken down"), &format!("{:.0} ms", ended * 1e3));
    Ok(())
}

/// Kernel memory in KiB that sandboxes cost: slab, stacks, page tables, per-CPU areas.
fn kernel_kib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let wanted = ["SUnreclaim:", "KernelStack:", "PageTables:", "Percpu:"];
    let values = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        wanted.contains(&name).then(|| words.next()?.parse::<u64>().ok()).flatten()
    });
    Ok(values.sum())
}

/// Private memory of a process in KiB.
pub fn private_kib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let rows = text.lines().filter(|line| line.starts_with("Private_"));
    Some(rows.filter_map(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}

/// Processes below `ancestor` that run a guest.
pub fn guests(ancestor: u32) -> Vec<u32> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(')').next().unwrap_or("");
        if let Some(parent) = after.split_whitespace().nth(1).and_then(|p| p.parse::<u32>().ok()) {
            parents.insert(pid, parent);
        }
    }
    let below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == ancestor {
                return true;
            }
            pid = *parent;
        }
        false
    };
    let runs_guest = |pid: u32| {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.to_string_lossy().contains("holm-guest")
    };
    parents.keys().copied().filter(|pid| below(*pid) && runs_guest(*pid)).collect()
}
