//! Facts about one entry, in envd's form.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::AsFd;

use holm_wire::filesystem::{EntryInfo, FileType};
use rustix::fs::{AtFlags, Stat};

use crate::identity::Names;

/// Prefix of the attributes that uploads set.
pub const METADATA: &str = "user.holm.";
/// Most bytes of all attribute names of one file.
const MAX_NAMES: usize = 16 << 10;

/// Reads an entry. A link is described itself and not what it leads to; its size and kind are
/// the link's own.
pub fn read(
    directory: impl AsFd,
    name: &CStr,
    path: String,
    names: &Names,
) -> rustix::io::Result<EntryInfo> {
    let facts = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let link = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_symlink();
    let target = if link {
        let target = rustix::fs::readlinkat(&directory, name, Vec::new())?;
        Some(target.to_string_lossy().into_owned())
    } else {
        None
    };
    Ok(describe(&facts, target, path, names))
}

/// An entry from what is known of it.
pub fn describe(
    facts: &Stat,
    symlink_target: Option<String>,
    path: String,
    names: &Names,
) -> EntryInfo {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or("");
    EntryInfo {
        name: if name.is_empty() { "/".to_owned() } else { name.to_owned() },
        r#type: kind(facts.st_mode),
        size: facts.st_size,
        mode: facts.st_mode & 0o7777,
        permissions: permissions(facts.st_mode),
        owner: names.user(facts.st_uid),
        group: names.group(facts.st_gid),
        modified_time: time(facts.st_mtime, facts.st_mtime_nsec as i64),
        symlink_target,
        metadata: BTreeMap::new(),
        path,
    }
}

/// The attributes that an upload has set. Best effort: not every file system has them.
pub fn metadata(path: &CStr) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut names = vec![0u8; MAX_NAMES];
    let Ok(length) = rustix::fs::llistxattr(path, &mut names[..]) else { return found };
    for name in names[..length].split(|byte| *byte == 0) {
        let Some(key) = name.strip_prefix(METADATA.as_bytes()) else { continue };
        let mut value = vec![0u8; 4096];
        if let Ok(length) = rustix::fs::lgetxattr(path, name, &mut value[..]) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.insert(text(key), text(&value[..length]));
        }
    }
    found
}

/// The kind with envd's names.
fn kind(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::RegularFile => FileType::File,
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::Unspecified,
    }
}

/// As `ls` prints them.
fn permissions(mode: u32) -> String {
    let first = match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => 'd',
        rustix::fs::FileType::Symlink => 'l',
        rustix::fs::FileType::Fifo => 'p',
        rustix::fs::FileType::Socket => 's',
        rustix::fs::FileType::CharacterDevice => 'c',
        rustix::fs::FileType::BlockDevice => 'b',
        _ => '-',
    };
    let mut text = String::from(first);
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => with,
            (true, false) => without,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// RFC 3339 in UTC. By hand: a library for times would be a tenth of the guest.
fn time(seconds: i64, nanoseconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March have the leap day at their end; 146,097 days are 400 of them.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    if !(0..=9999).contains(&year) {
        return "1970-01-01T00:00:00Z".to_owned();
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if (1..1_000_000_000).contains(&nanoseconds) {
        text.push_str(format!(".{nanoseconds:09}").trim_end_matches('0'));
    }
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_like_ls() {
        for (mode, want) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o120_777, "lrwxrwxrwx"),
            (0o104_755, "-rwsr-xr-x"),
            (0o041_777, "drwxrwxrwt"),
            (0o102_644, "-rw-r-Sr--"),
        ] {
            assert_eq!(permissions(mode), want, "{mode:o}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        for (seconds, nanoseconds, want) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (-1, 0, "1969-12-31T23:59:59Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (951_868_800, 1, "2000-03-01T00:00:00.000000001Z"),
            (1_700_000_000, 500_000_000, "2023-11-14T22:13:20.5Z"),
            (4_102_444_799, 0, "2099-12-31T23:59:59Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00Z"),
            (i64::MAX, 0, "1970-01-01T00:00:00Z"),
            (i64::MIN, 0, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(time(seconds, nanoseconds), want, "{seconds}");
        }
    }
}
