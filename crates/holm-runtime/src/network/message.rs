//! Messages to the kernel's netlink, as bytes: a head, a fixed part, and attributes.

/// Several messages that are sent as one.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    count: u32,
}

/// `struct nlmsghdr`
pub(super) const HEAD: usize = 16;

pub(super) const REQUEST: u16 = 1;
pub(super) const ACK: u16 = 4;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;
pub(super) const APPEND: u16 = 0x800;

impl Batch {
    /// Adds one. Their numbers count from 0.
    pub(super) fn add(&mut self, kind: u16, flags: u16, fixed: &[u8], attributes: &Attributes) {
        let length = HEAD + align(fixed.len()) + attributes.0.len();
        self.bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((flags | REQUEST).to_ne_bytes());
        self.bytes.extend(self.count.to_ne_bytes());
        // From whom: the kernel fills that in.
        self.bytes.extend([0; 4]);
        self.bytes.extend(fixed);
        pad(&mut self.bytes);
        self.bytes.extend(&attributes.0);
        self.count += 1;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }
}

/// A list of attributes.
#[derive(Debug, Default)]
pub(super) struct Attributes(Vec<u8>);

/// Says that an attribute holds attributes.
const NESTED: u16 = 0x8000;

impl Attributes {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        pad(&mut self.0);
        self
    }

    pub(super) fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// A number in the network's order, as nf_tables has them.
    pub(super) fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    pub(super) fn nested(self, kind: u16, value: &Self) -> Self {
        self.bytes(kind | NESTED, &value.0)
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(align(bytes.len()), 0);
}

const fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_what_is_said_and_everything_begins_at_a_word() {
        let inner = Attributes::new().bytes(1, &[7]);
        let mut batch = Batch::default();
        batch.add(0x0a03, ACK, &[9], &Attributes::new().text(2, "abc").nested(4, &inner));
        batch.add(1, 0, &[], &Attributes::new().number(3, 5));
        let mut want = vec![36, 0, 0, 0, 3, 10, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0];
        want.extend([8, 0, 2, 0, b'a', b'b', b'c', 0]);
        want.extend([12, 0, 4, 0x80, 5, 0, 1, 0, 7, 0, 0, 0]);
        // The first one's length counts its nested part.
        want[0] = 40;
        want.extend([24, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 3, 0, 0, 0, 0, 5]);
        assert_eq!(batch.bytes(), want);
        assert_eq!(batch.count(), 2);
    }
}
