//! Networks: an address and how many of its bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network; one address is one with all bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

/// Not a network. The text says what to write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotANetwork {
    /// Not an address.
    #[error("`{0}` is not an address; write 203.0.113.0/24 or [2001:db8::]/32")]
    Address(String),
    /// The part behind the slash.
    #[error("a network of this kind has 0 to {0} bits")]
    Bits(u8),
    /// Bits that do not count are set.
    #[error("the address has bits beyond the prefix; write {0}")]
    HostBits(Cidr),
    /// An IPv4 address in IPv6 clothes.
    #[error("write IPv4 addresses as IPv4: {0}")]
    Mapped(Ipv4Addr),
}

impl Cidr {
    /// Of an IPv4 network known when this is compiled.
    #[must_use]
    pub const fn v4(base: Ipv4Addr, bits: u8) -> Self {
        Self { base: IpAddr::V4(base), bits }
    }

    /// Of an IPv6 network known when this is compiled.
    #[must_use]
    pub const fn v6(base: Ipv6Addr, bits: u8) -> Self {
        Self { base: IpAddr::V6(base), bits }
    }

    /// One address.
    #[must_use]
    pub fn one(address: IpAddr) -> Self {
        Self { base: address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// True where the address, as it is written, lies in this network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (address, self.base) {
            (IpAddr::V4(address), IpAddr::V4(base)) => {
                cut_v4(address, self.bits) == cut_v4(base, self.bits)
            }
            (IpAddr::V6(address), IpAddr::V6(base)) => {
                cut_v6(address, self.bits) == cut_v6(base, self.bits)
            }
            _ => false,
        }
    }
}

fn cut_v4(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
    (address.to_bits() & mask).into()
}

fn cut_v6(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
    (address.to_bits() & mask).into()
}

impl FromStr for Cidr {
    type Err = NotANetwork;

    /// `203.0.113.0/24`, `203.0.113.7`, `2001:db8::/32`; brackets around the address are allowed.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let bare = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let wrong = || NotANetwork::Address(crate::text::shown(address, 60));
        let base: IpAddr = match bare {
            Some(bare) => IpAddr::V6(bare.parse().map_err(|_| wrong())?),
            None => address.parse().map_err(|_| wrong())?,
        };
        if let IpAddr::V6(v6) = base
            && let Some(v4) = v6.to_ipv4_mapped()
        {
            return Err(NotANetwork::Mapped(v4));
        }
        let whole = Self::one(base);
        let Some(bits) = bits else { return Ok(whole) };
        let is_plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits = bits.parse().ok().filter(|bits| is_plain && *bits <= whole.bits);
        let bits: u8 = bits.ok_or(NotANetwork::Bits(whole.bits))?;
        let cut = match base {
            IpAddr::V4(base) => IpAddr::V4(cut_v4(base, bits)),
            IpAddr::V6(base) => IpAddr::V6(cut_v6(base, bits)),
        };
        if cut != base {
            return Err(NotANetwork::HostBits(Self { base: cut, bits }));
        }
        Ok(Self { base, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            IpAddr::V4(base) => write!(f, "{base}")?,
            IpAddr::V6(base) => write!(f, "[{base}]")?,
        }
        let whole = if self.base.is_ipv4() { 32 } else { 128 };
        if self.bits == whole { Ok(()) } else { write!(f, "/{}", self.bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_written() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = text.parse::<Cidr>();
            let found = found.map(|net| net.to_string()).map_err(|error| error.to_string());
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{text}");
        };
        check("203.0.113.0/24", Ok("203.0.113.0/24"));
        check("203.0.113.7", Ok("203.0.113.7"));
        check("203.0.113.7/32", Ok("203.0.113.7"));
        check("0.0.0.0/0", Ok("0.0.0.0/0"));
        check("2001:db8::/32", Ok("[2001:db8::]/32"));
        check("[2001:db8::]/32", Ok("[2001:db8::]/32"));
        check("[::]/0", Ok("[::]/0"));
        check("[2001:DB8::1]", Ok("[2001:db8::1]"));
        let hint = "write 203.0.113.0/24 or [2001:db8::]/32";
        for text in ["", "1.2.3", "0177.0.0.1", "[1.2.3.4]", "2130706433", "fe80::1%lo"] {
            check(text, Err(&format!("`{text}` is not an address; {hint}")));
        }
        check("203.0.113.0/33", Err("a network of this kind has 0 to 32 bits"));
        check("203.0.113.0/", Err("a network of this kind has 0 to 32 bits"));
        check("203.0.113.0/+8", Err("a network of this kind has 0 to 32 bits"));
        check("[::]/129", Err("a network of this kind has 0 to 128 bits"));
        let beyond = "the address has bits beyond the prefix; write 203.0.113.0/24";
        check("203.0.113.5/24", Err(beyond));
        check("::ffff:203.0.113.5", Err("write IPv4 addresses as IPv4: 203.0.113.5"));
    }

    #[test]
    fn addresses_lie_in_networks() {
        let check = |net: &str, address: &str, expected: bool| {
            let net: Cidr = net.parse().expect("a network");
            let address = address.parse().expect("an address");
            assert_eq!(net.contains(address), expected, "{address} in {net}");
        };
        check("203.0.113.0/24", "203.0.113.255", true);
        check("203.0.113.0/24", "203.0.114.0", false);
        check("203.0.113.7", "203.0.113.7", true);
        check("203.0.113.7", "203.0.113.6", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "::ffff:8.8.8.8", false);
        check("[::]/0", "2001:db8::1", true);
        check("[::]/0", "8.8.8.8", false);
        check("[2001:db8::]/33", "2001:db8:7fff::1", true);
        check("[2001:db8::]/33", "2001:db8:8000::1", false);
    }
}
