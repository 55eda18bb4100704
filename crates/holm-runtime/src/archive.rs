//! Archives, written: entries for a stream, in the form of ustar with pax records for what that has no
//! room for. Who reads them is `holm-template`.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::Dir;

/// Bytes of one block.
pub const BLOCK: usize = 512;

/// What a header says.
#[derive(Debug)]
pub struct Head<'a> {
    /// Its name.
    pub path: &'a [u8],
    /// As in a header.
    pub kind: u8,
    /// Permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes that follow, also those of [`map`].
    pub size: u64,
    /// Seconds since 1970 and nanoseconds.
    pub mtime: (i64, u32),
    /// Target of a link.
    pub link: &'a [u8],
    /// Extended attributes.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
    /// Bytes of a file with its holes, where what follows begins with a [`map`].
    pub sparse: Option<u64>,
}

/// Largest value of eleven octal digits.
const MAX_SIZE: u64 = 0o77_777_777_777;
/// Of seven.
const MAX_ID: u32 = 0o7_777_777;

/// Names in a directory, in the order in which they are to be taken from the end: the same directory
/// gives the same archive, and so the same layer.
///
/// # Errors
/// When it cannot be read.
pub fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

/// The blocks of one entry before its content.
#[must_use]
pub fn head(entry: &Head<'_>) -> Vec<u8> {
    let mut records = Vec::new();
    let mut add = |key: &[u8], value: &[u8]| records.extend(record(key, value));
    if let Some(length) = entry.sparse {
        // The form that says where the bytes belong in front of them.
        add(b"GNU.sparse.major", b"1");
        add(b"GNU.sparse.minor", b"0");
        add(b"GNU.sparse.name", entry.path);
        add(b"GNU.sparse.realsize", length.to_string().as_bytes());
    }
    if entry.path.len() > 100 {
        add(b"path", entry.path);
    }
    if entry.link.len() > 100 {
        add(b"linkpath", entry.link);
    }
    if entry.size > MAX_SIZE {
        add(b"size", entry.size.to_string().as_bytes());
    }
    if entry.uid > MAX_ID {
        add(b"uid", entry.uid.to_string().as_bytes());
    }
    if entry.gid > MAX_ID {
        add(b"gid", entry.gid.to_string().as_bytes());
    }
    let (seconds, nanos) = entry.mtime;
    if nanos > 0 || seconds < 0 || seconds.cast_unsigned() > MAX_SIZE {
        add(b"mtime", time(seconds, nanos).as_bytes());
    }
    for (name, value) in entry.xattrs {
        add(&[b"SCHILY.xattr.", name.as_slice()].concat(), value);
    }
    let mut out = Vec::new();
    if !records.is_empty() {
        let length = records.len() as u64;
        let own = Head {
            path: b"pax",
            kind: b'x',
            size: length,
            link: b"",
            xattrs: &[],
            sparse: None,
            ..*entry
        };
        block(&mut out, &own);
        out.extend(records);
        pad(&mut out, length);
    }
    block(&mut out, entry);
    out
}

/// Fills the last block of content.
pub fn pad(out: &mut Vec<u8>, size: u64) {
    let length = out.len() + usize::try_from(padding(size)).unwrap_or(0);
    out.resize(length, 0);
}

/// How many bytes fill the last block of so many.
#[must_use]
pub fn padding(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// What comes before the content of a file with holes: for each piece where it begins and its length.
#[must_use]
pub fn map(pieces: &[(u64, u64)]) -> Vec<u8> {
    let mut out = format!("{}\n", pieces.len()).into_bytes();
    for (offset, length) in pieces {
        out.extend(format!("{offset}\n{length}\n").into_bytes());
    }
    let length = out.len() as u64;
    pad(&mut out, length);
    out
}

/// `-12.5`: seconds, with a fraction.
fn time(seconds: i64, nanos: u32) -> String {
    match (seconds, nanos) {
        (_, 0) => seconds.to_string(),
        (..0, _) => format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanos),
        _ => format!("{seconds}.{nanos:09}"),
    }
}

/// What ends an archive.
pub const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn block(out: &mut Vec<u8>, entry: &Head<'_>) {
    let mut block = [0_u8; BLOCK];
    let name = &entry.path[..entry.path.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    octal(&mut block[100..108], u64::from(entry.mode));
    octal(&mut block[108..116], u64::from(entry.uid.min(MAX_ID)));
    octal(&mut block[116..124], u64::from(entry.gid.min(MAX_ID)));
    octal(&mut block[124..136], entry.size.min(MAX_SIZE));
    octal(&mut block[136..148], u64::try_from(entry.mtime.0).unwrap_or(0).min(MAX_SIZE));
    block[148..156].fill(b' ');
    block[156] = entry.kind;
    let link = &entry.link[..entry.link.len().min(100)];
    block[157..157 + link.len()].copy_from_slice(link);
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    out.extend_from_slice(&block);
}

fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let text = format!("{value:0digits$o}");
    field[..digits].copy_from_slice(&text.as_bytes()[..digits]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_fractions() {
        for (at, text) in [
            ((0, 0), "0"),
            ((1, 500_000_000), "1.500000000"),
            ((-1, 0), "-1"),
            ((-1, 500_000_000), "-0.500000000"),
            ((-2, 750_000_000), "-1.250000000"),
        ] {
            assert_eq!(time(at.0, at.1), text);
        }
    }

    #[test]
    fn a_map_fills_blocks() {
        let text = map(&[(0, 5), (4096, 7)]);
        assert_eq!(text.len(), BLOCK);
        assert!(text.starts_with(b"2\n0\n5\n4096\n7\n\0"));
        assert_eq!(map(&[(u64::MAX, 1); 100]).len() % BLOCK, 0);
    }
}
