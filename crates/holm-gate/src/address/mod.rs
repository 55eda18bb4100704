//! Addresses that no policy opens: everything that stands for this machine, its networks or its
//! cloud, and every form that hides such an address in another one.
//!
//! The networks that exist for documentation (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24,
//! 2001:db8::/32) are not among them: they lead nowhere but in closed networks.

mod own;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::policy::Cidr;

pub use own::{Own, OwnError};

/// IPv4 networks and what they are.
const V4: &[(Ipv4Addr, u8, &str)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a carrier or a cloud"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "cloud metadata"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local, cloud metadata"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "protocol assignments"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarks"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved, broadcast"),
];

/// IPv6 networks and what they are. Those before the last exist to be named; the last rule is that
/// only 2000::/3 is given out.
const V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4-mapped"),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, "IPv4-translated"),
    (Ipv6Addr::UNSPECIFIED, 96, "IPv4-compatible"),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, "NAT64"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "NAT64"),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64, "discard"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "Teredo"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
    (Ipv6Addr::new(0x5f00, 0, 0, 0, 0, 0, 0, 0), 16, "segment routing"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "unique local"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

const GIVEN_OUT: Cidr = Cidr::v6(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What an address is that is refused always, by itself; nothing for a public one. Whether it is
/// one of this machine, [`Own`] knows.
#[must_use]
pub fn refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(_) => {
            let holds = |net: &&(Ipv4Addr, u8, _)| Cidr::v4(net.0, net.1).contains(address);
            V4.iter().find(holds).map(|net| net.2)
        }
        IpAddr::V6(v6) => {
            let holds = |net: &&(Ipv6Addr, u8, _)| Cidr::v6(net.0, net.1).contains(address);
            let unassigned = || (!GIVEN_OUT.contains(address)).then_some("not given out");
            let found = V6.iter().find(holds).map(|net| net.2).or_else(unassigned);
            found.or_else(|| is_isatap_of_refused(v6).then_some("ISATAP"))
        }
    }
}

/// `…:0:5efe:a.b.c.d` and `…:200:5efe:a.b.c.d` lead to the IPv4 address where such a tunnel exists.
fn is_isatap_of_refused(address: Ipv6Addr) -> bool {
    let [.., high, low, first, second] = address.segments();
    let [a, b] = first.to_be_bytes();
    let [c, d] = second.to_be_bytes();
    high & !0x200 == 0 && low == 0x5efe && refused(Ipv4Addr::new(a, b, c, d).into()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refused_form_is_known() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(refused(text.parse().expect("an address")), expected, "{text}");
        };
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            // Documentation.
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "2001:db8::1",
            "2001:200::1",
            "2606:4700::1111",
            "2a00:1450::5efe:808:808",
        ] {
            check(public, None);
        }
        check("0.0.0.0", Some("unspecified"));
        check("0.1.2.3", Some("unspecified"));
        check("10.0.0.0", Some("private"));
        check("10.255.255.255", Some("private"));
        check("100.64.0.0", Some("shared by a carrier or a cloud"));
        check("100.100.100.200", Some("shared by a carrier or a cloud"));
        check("100.127.255.255", Some("shared by a carrier or a cloud"));
        check("127.0.0.1", Some("loopback"));
        check("127.255.255.255", Some("loopback"));
        check("168.63.129.16", Some("cloud metadata"));
        check("169.254.0.0", Some("link-local, cloud metadata"));
        check("169.254.169.254", Some("link-local, cloud metadata"));
        check("169.254.170.2", Some("link-local, cloud metadata"));
        check("172.16.0.0", Some("private"));
        check("172.31.255.255", Some("private"));
        check("192.0.0.192", Some("protocol assignments"));
        check("192.88.99.1", Some("6to4 relay"));
        check("192.168.0.0", Some("private"));
        check("192.168.255.255", Some("private"));
        check("198.18.0.0", Some("benchmarks"));
        check("198.19.255.255", Some("benchmarks"));
        check("224.0.0.0", Some("multicast"));
        check("239.255.255.255", Some("multicast"));
        check("240.0.0.0", Some("reserved, broadcast"));
        check("255.255.255.255", Some("reserved, broadcast"));
        check("::", Some("unspecified"));
        check("::1", Some("loopback"));
        check("::2", Some("IPv4-compatible"));
        check("::8.8.8.8", Some("IPv4-compatible"));
        check("::ffff:8.8.8.8", Some("IPv4-mapped"));
        check("::ffff:127.0.0.1", Some("IPv4-mapped"));
        check("::ffff:169.254.169.254", Some("IPv4-mapped"));
        check("::ffff:0:127.0.0.1", Some("IPv4-translated"));
        check("64:ff9b::a9fe:a9fe", Some("NAT64"));
        check("64:ff9b:1::a00:1", Some("NAT64"));
        check("64:ff9b:2::1", Some("not given out"));
        check("100::1", Some("discard"));
        check("2001::1", Some("Teredo"));
        check("2001:0:53aa:64c::", Some("Teredo"));
        check("2001:20::1", Some("protocol assignments"));
        check("2001:1ff:ffff::1", Some("protocol assignments"));
        check("2002:7f00:1::1", Some("6to4"));
        check("3fff::1", Some("documentation"));
        check("4000::1", Some("not given out"));
        check("5f00::1", Some("segment routing"));
        check("fc00::1", Some("unique local"));
        check("fd00:ec2::254", Some("unique local"));
        check("fe80::1", Some("link-local"));
        check("fec0::1", Some("site-local"));
        check("ff02::1", Some("multicast"));
        check("1fff:ffff::1", Some("not given out"));
        check("2a00:1450::5efe:10.0.0.1", Some("ISATAP"));
        check("2a00:1450::200:5efe:127.0.0.1", Some("ISATAP"));
    }
}
