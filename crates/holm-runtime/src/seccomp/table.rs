//! Reads the data file.

/// The reviewed list of the one architecture that we have reviewed.
#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("x86_64.table");
#[cfg(target_arch = "x86_64")]
const CONFINED: &str = include_str!("x86_64.confined.table");
#[cfg(not(target_arch = "x86_64"))]
compile_error!("holm has a reviewed list of system calls for x86_64 only");

/// What happens with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Allow,
    Errno(u16),
    /// Flags in the first argument must name no namespace.
    Clone,
    /// The same for `unshare`.
    Unshare,
    /// Families and protocols of sockets.
    Socket,
    /// Requests that type into terminals.
    Ioctl,
    /// Execution domains.
    Personality,
    /// Limits may be set for the caller itself (named 0) and read of anyone.
    Prlimit,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub number: u32,
    pub name: String,
    pub rule: Rule,
}

/// All lines, in ascending order of numbers.
pub(super) fn rows() -> Result<Vec<Row>, String> {
    parse(TABLE)
}

/// The lines of workers that only read and write files.
pub(super) fn confined() -> Result<Vec<Row>, String> {
    parse(CONFINED)
}

pub(super) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [number, name, rule] = fields[..] else {
            if fields.is_empty() {
                continue;
            }
            return Err(format!("system call table: not three fields: {line:?}"));
        };
        let number =
            number.parse().map_err(|_| format!("system call table: number in {line:?}"))?;
        if rows.last().is_some_and(|last| last.number >= number) {
            return Err(format!("system call table: {name} is out of order"));
        }
        rows.push(Row { number, name: name.to_owned(), rule: parse_rule(rule)? });
    }
    Ok(rows)
}

fn parse_rule(text: &str) -> Result<Rule, String> {
    Ok(match text {
        "allow" => Rule::Allow,
        "eperm" => Rule::Errno(errno(libc::EPERM)),
        "enosys" => Rule::Errno(errno(libc::ENOSYS)),
        "clone" => Rule::Clone,
        "unshare" => Rule::Unshare,
        "socket" => Rule::Socket,
        "ioctl" => Rule::Ioctl,
        "personality" => Rule::Personality,
        "prlimit" => Rule::Prlimit,
        other => return Err(format!("system call table: unknown rule {other:?}")),
    })
}

/// An errno as the filter language has it.
pub(super) fn errno(value: libc::c_int) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
