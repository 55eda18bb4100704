//! Names that are of some network, not of the world. Asked for outside they would tell, or be told by,
//! the host's own network; so the gate answers them itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Last labels that no public zone has.
const LOCAL: [&str; 6] = ["internal", "invalid", "local", "localdomain", "localhost", "onion"];

/// What a name is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm {
    /// A public name, as far as a name can tell.
    Public,
    /// An address, or a network that begins with it, asked backwards.
    Reverse(IpAddr),
    /// A name that means nothing in the world.
    Local,
}

/// The realm of a name in small letters without a dot at the end.
pub(crate) fn realm(name: &str) -> Realm {
    let labels: Vec<&str> = name.split('.').rev().collect();
    match &labels[..] {
        [_] => Realm::Local,
        ["arpa", "in-addr", rest @ ..] => v4(rest).map_or(Realm::Local, Realm::Reverse),
        ["arpa", "ip6", rest @ ..] => v6(rest).map_or(Realm::Local, Realm::Reverse),
        ["arpa", ..] => Realm::Local,
        // An address is no name; whoever asks for it means another form of it.
        [last, ..] if LOCAL.contains(last) || last.bytes().all(|byte| byte.is_ascii_digit()) => {
            Realm::Local
        }
        _ => Realm::Public,
    }
}

/// The labels that are numbers, up to four. What follows them is a part of a network that has been
/// given to somebody else.
fn v4(labels: &[&str]) -> Option<IpAddr> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for (place, label) in bytes.iter_mut().zip(labels) {
        let Ok(byte) = label.parse() else { break };
        *place = byte;
        count += 1;
    }
    (count > 0).then(|| Ipv4Addr::from(bytes).into())
}

fn v6(labels: &[&str]) -> Option<IpAddr> {
    let mut bits = 0;
    let mut count = 0;
    for label in labels.iter().take(32) {
        let digit = match label.as_bytes() {
            [byte] => char::from(*byte).to_digit(16),
            _ => None,
        };
        let Some(digit) = digit else { break };
        bits |= u128::from(digit) << (124 - 4 * count);
        count += 1;
    }
    (count > 0).then(|| Ipv6Addr::from_bits(bits).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_realm() {
        let check = |name: &str, expected: Realm| assert_eq!(realm(name), expected, "{name}");
        let reverse = |text: &str| Realm::Reverse(text.parse().expect("an address"));
        check("example.com", Realm::Public);
        check("local.example.com", Realm::Public);
        check("1password.com", Realm::Public);
        for name in
            ["db", "printer.local", "metadata.google.internal", "a.localhost", "192.168.0.1"]
        {
            check(name, Realm::Local);
        }
        check("home.arpa", Realm::Local);
        check("in-addr.arpa", Realm::Local);
        check("x.in-addr.arpa", Realm::Local);
        check("4.3.2.10.in-addr.arpa", reverse("10.2.3.4"));
        check("16.172.in-addr.arpa", reverse("172.16.0.0"));
        check("7.0-25.113.0.203.in-addr.arpa", reverse("203.0.113.0"));
        check("9.8.7.4.3.2.10.in-addr.arpa", reverse("10.2.3.4"));
        check("300.10.in-addr.arpa", reverse("10.0.0.0"));
        check("d.f.ip6.arpa", reverse("fd00::"));
        let one = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
        check(&one, reverse("2001:db8::1"));
        check(&format!("f.{one}"), reverse("2001:db8::1"));
    }
}
