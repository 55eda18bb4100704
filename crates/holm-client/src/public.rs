//! Which addresses other people may make us connect to: public ones only. Everything that stands
//! for this machine, its networks or its cloud is refused, and so is what could lead there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// IPv4 networks that are not public, or serve a cloud's machines.
const V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// IPv6 networks inside the public range that are not public, or carry IPv4 addresses.
const V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// True for addresses of the public network. Only 2000::/3 of IPv6 is given out, so that the
/// translated 64:ff9b::/96 and everything local is outside.
#[must_use]
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !V4.iter().any(|(net, bits)| is_in(ip.into(), (*net).into(), *bits)),
        IpAddr::V6(ip) => {
            is_in(ip.into(), Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0).into(), 3)
                && !V6.iter().any(|(net, bits)| is_in(ip.into(), (*net).into(), *bits))
        }
    }
}

/// True for an address of this machine: whoever may bind to it has it. Asked anew each time,
/// because addresses come and go.
#[must_use]
pub fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// True for a loopback, unspecified or link-local address.
#[must_use]
pub fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.octets()[0] == 0 || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unspecified() || ip.is_unicast_link_local(),
    }
}

/// True where `ip` is in the network.
#[must_use]
pub fn is_in(ip: IpAddr, net: IpAddr, bits: u8) -> bool {
    match (ip.to_canonical(), net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) if bits <= 32 => {
            let shift = 32 - u32::from(bits);
            let cut = |ip: Ipv4Addr| ip.to_bits().checked_shr(shift).unwrap_or(0);
            cut(ip) == cut(net)
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) if bits <= 128 => {
            let shift = 128 - u32::from(bits);
            let cut = |ip: Ipv6Addr| ip.to_bits().checked_shr(shift).unwrap_or(0);
            cut(ip) == cut(net)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_public(text.parse().expect("an address")), expected, "{text}");
        };
        for text in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            check(text, true);
        }
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:a00:1::1",
            "100::1",
            "::10.0.0.1",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn own_addresses_are_known() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
