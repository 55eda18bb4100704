//! Entries for a stream, in the form of ustar with pax records for what that has no room for.

use super::{BLOCK, padding};

/// What a header says.
pub(crate) struct Head<'a> {
    pub path: &'a [u8],
    /// As in a header.
    pub kind: u8,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub mtime: i64,
    pub link: &'a [u8],
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
}

/// Largest value of eleven octal digits.
const MAX_SIZE: u64 = 0o77_777_777_777;
/// Of seven.
const MAX_ID: u32 = 0o7_777_777;

/// The blocks of one entry before its content.
pub(crate) fn head(entry: &Head<'_>) -> Vec<u8> {
    let mut records = Vec::new();
    let mut add = |key: &[u8], value: &[u8]| records.extend(record(key, value));
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
    if entry.mtime < 0 || entry.mtime.cast_unsigned() > MAX_SIZE {
        add(b"mtime", entry.mtime.to_string().as_bytes());
    }
    for (name, value) in entry.xattrs {
        add(&[b"SCHILY.xattr.", name.as_slice()].concat(), value);
    }
    let mut out = Vec::new();
    if !records.is_empty() {
        let length = records.len() as u64;
        let own = Head { path: b"pax", kind: b'x', size: length, link: b"", xattrs: &[], ..*entry };
        block(&mut out, &own);
        out.extend(records);
        pad(&mut out, length);
    }
    block(&mut out, entry);
    out
}

/// Fills the last block of content.
pub(crate) fn pad(out: &mut Vec<u8>, size: u64) {
    let length = out.len() + usize::try_from(padding(size)).unwrap_or(0);
    out.resize(length, 0);
}

/// What ends an archive.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

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
    octal(&mut block[136..148], u64::try_from(entry.mtime).unwrap_or(0).min(MAX_SIZE));
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
