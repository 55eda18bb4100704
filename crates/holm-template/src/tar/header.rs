//! One block of 512 bytes: fields at fixed places.

use super::{BLOCK, Fault, Result, broken};

/// A header block whose checksum is right.
pub(super) struct Header([u8; BLOCK]);

impl Header {
    /// Checks a block; none where it is all zeros, which ends an archive.
    pub(super) fn check(block: [u8; BLOCK]) -> Result<Option<Self>> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let own = |at: usize| (148..156).contains(&at);
        let sum = |value: fn(u8) -> i64| -> i64 {
            let all = block.iter().enumerate();
            all.map(|(at, byte)| if own(at) { 32 } else { value(*byte) }).sum()
        };
        let said = octal(&block[148..156]).and_then(|sum| i64::try_from(sum).ok());
        // Very old programs added the bytes up as signed numbers.
        if said != Some(sum(i64::from)) && said != Some(sum(|byte| i64::from(byte.cast_signed()))) {
            return broken("a header's checksum does not match");
        }
        Ok(Some(Self(block)))
    }

    pub(super) fn kind(&self) -> u8 {
        self.0[156]
    }

    pub(super) fn name(&self) -> Vec<u8> {
        let name = text(&self.0[..100]);
        // GNU has other things where POSIX has the front part of the name.
        let prefix = if &self.0[257..263] == b"ustar\0" { text(&self.0[345..500]) } else { &[] };
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        text(&self.0[157..257]).to_vec()
    }

    pub(super) fn mode(&self) -> Result<u32> {
        // Some programs write the kind of file as well.
        let mode = self.number(100..108, "mode")? & 0o7777;
        u32::try_from(mode).map_err(|_| Fault::Broken("a mode is too large".into()))
    }

    pub(super) fn uid(&self) -> Result<u64> {
        self.number(108..116, "owner")
    }

    pub(super) fn gid(&self) -> Result<u64> {
        self.number(116..124, "group")
    }

    pub(super) fn size(&self) -> Result<u64> {
        self.number(124..136, "size")
    }

    /// Seconds; before 1970 where it is negative.
    pub(super) fn mtime(&self) -> i64 {
        let field = &self.0[136..148];
        if field[0] == 0xff {
            let low = field[4..12].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            return low.cast_signed();
        }
        self.number(136..148, "time").ok().and_then(|time| i64::try_from(time).ok()).unwrap_or(0)
    }

    /// GNU's sparse form: fields, whether more blocks of them follow, and the size with all holes.
    pub(super) fn sparse(&self) -> Result<(&[u8], bool, u64)> {
        Ok((&self.0[386..482], self.0[482] != 0, self.number(483..495, "real size")?))
    }

    fn number(&self, field: std::ops::Range<usize>, what: &str) -> Result<u64> {
        number(&self.0[field])
            .ok_or_else(|| Fault::Broken(format!("the {what} in a header is not a number")))
    }
}

/// Octal, or with the first bit set, binary.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    match field.split_first() {
        Some((0x80, rest)) => rest
            .iter()
            .try_fold(0_u64, |all, byte| all.checked_mul(256).map(|all| all | u64::from(*byte))),
        // Negative, or larger than anything.
        Some((first, _)) if *first > 0x80 => None,
        _ => octal(field),
    }
}

/// Digits between spaces; nothing is zero.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let digits = field[..end].trim_ascii();
    digits.iter().try_fold(0_u64, |all, byte| match byte {
        b'0'..=b'7' => all.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// A field up to its first NUL.
fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_forms() {
        for (field, want) in [
            (&b"0000644\0"[..], Some(0o644)),
            (b"  644 \0\0", Some(0o644)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"0000648\0", None),
            (b"7777777777777777777777777", None),
            (b"\x80\0\0\0\0\x03\x20\xC9", Some(205_001)),
            (b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", None),
        ] {
            assert_eq!(number(field), want, "{field:?}");
        }
    }
}
