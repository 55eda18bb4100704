//! Reading `/proc` of the host.

use std::fs;

fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Every process id of the host.
pub fn pids() -> Vec<u32> {
    fs::read_dir("/proc")
        .expect("/proc can be read")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The state letter of a process; `None` when it is gone.
pub fn state(pid: u32) -> Option<char> {
    stat_fields(pid)?.first()?.chars().next()
}

/// True while the process exists and is no zombie.
pub fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Direct children with their state letters.
pub fn children(pid: u32) -> Vec<(u32, char)> {
    pids()
        .into_iter()
        .filter_map(|child| {
            let fields = stat_fields(child)?;
            (fields.get(1)?.parse() == Ok(pid)).then_some((child, fields[0].chars().next()?))
        })
        .collect()
}

/// Every process below `pid`, with its start time, by which it is known again.
pub fn descendants(pid: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(next) = open.pop() {
        for (child, _) in children(next) {
            if let Some(start) = stat_fields(child).and_then(|fields| fields.get(19).cloned()) {
                found.push((child, start));
                open.push(child);
            }
        }
    }
    found
}

/// True while that very process (same start time) exists and is no zombie.
pub fn is_same_alive(pid: u32, start: &str) -> bool {
    stat_fields(pid).is_some_and(|f| {
        f.get(19).is_some_and(|s| s == start) && !matches!(f[0].as_str(), "Z" | "X")
    })
}

/// Its parent, unless it is gone or has none.
pub fn parent(pid: u32) -> Option<u32> {
    stat_fields(pid)?.get(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// What it calls itself.
pub fn name(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    text.trim_end().to_owned()
}

/// The command line, blanks between the arguments.
pub fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// Most memory that the process ever had resident, in bytes.
pub fn memory_peak(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM is there");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}
