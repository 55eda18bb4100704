//! `GET /metrics`: what the sandbox uses, as far as it can see itself.

use serde::Serialize;

use crate::state::Guest;

/// envd's form.
#[derive(Debug, Serialize)]
pub struct Metrics {
    ts: i64,
    cpu_count: usize,
    cpu_used_pct: f32,
    mem_total: u64,
    mem_used: u64,
    mem_cache: u64,
    disk_used: u64,
    disk_total: u64,
}

/// Reads all of it. What /proc does not show here is 0.
pub fn read(guest: &Guest) -> Metrics {
    let memory = text("/proc/meminfo");
    let kib = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next());
        number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    let total = kib("MemTotal");
    let disk = rustix::fs::statvfs(guest.workdir().as_str()).or_else(|_| rustix::fs::statvfs("/"));
    let (disk_total, disk_used) = disk.map_or((0, 0), |facts| {
        let all = facts.f_blocks.saturating_mul(facts.f_frsize);
        (all, all.saturating_sub(facts.f_bfree.saturating_mul(facts.f_frsize)))
    });
    Metrics {
        ts: rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec,
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_used_pct: busy_share(guest),
        mem_total: total,
        mem_used: total.saturating_sub(kib("MemAvailable")),
        mem_cache: kib("Cached"),
        disk_used,
        disk_total,
    }
}

/// Percent of processor time in use since the last call (the first time: since boot).
fn busy_share(guest: &Guest) -> f32 {
    let stat = text("/proc/stat");
    let numbers: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(1)
        .map_while(|number| number.parse().ok())
        .collect();
    let all: u64 = numbers.iter().take(8).sum();
    let idle: u64 = numbers.iter().skip(3).take(2).sum();
    let (all_before, idle_before) = guest.cpu_sample.replace((all, idle));
    let (all, idle) = (all.saturating_sub(all_before), idle.saturating_sub(idle_before));
    if all == 0 { 0.0 } else { all.saturating_sub(idle) as f32 * 100.0 / all as f32 }
}

/// A small file of /proc; empty where it cannot be read.
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
