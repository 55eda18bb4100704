//! Fields of a tar header.

use crate::errors::{Result, invalid};

/// An archive that cannot be read.
pub(super) fn broken(what: &str) -> holm_wire::connect::Error {
    invalid(format!("the archive is broken: {what}"))
}

/// A number: octal digits, or the GNU form of large ones.
pub(super) fn number(field: &[u8]) -> Result<u64> {
    if field[0] & 0x80 != 0 {
        // The GNU form of large numbers: big-endian, the first bit set.
        let low = field.iter().rev().take(8).rev();
        return Ok(low.fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) & (u64::MAX >> 1));
    }
    let text: Vec<u8> = field.iter().copied().filter(|b| !matches!(b, b' ' | 0)).collect();
    let text = std::str::from_utf8(&text).map_err(|_| broken("a number is none"))?;
    if text.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(text, 8).map_err(|_| broken("a number is none"))
}

/// Text up to its NUL.
pub(super) fn trimmed(field: &[u8]) -> Vec<u8> {
    field.iter().copied().take_while(|byte| *byte != 0).collect()
}
