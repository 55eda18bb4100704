//! Conditions and outcomes as expressions of nf_tables, a machine with registers.

use super::super::PORT;
use super::super::message::Attributes;
use super::{Then, When};

/// The register that everything is loaded into.
const REGISTER: u32 = 1;

const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;

/// Adds the expressions of a condition.
pub(super) fn when(list: Attributes, when: When) -> Attributes {
    match when {
        When::Protocol(number) => protocol(list, number),
        When::From(port) => port_at(list, 0, port),
        When::To(port) => port_at(list, 2, port),
        When::Target4(address, bytes) => {
            let bytes = usize::from(bytes).min(4);
            // Its place in the head of IPv4.
            target(list, libc::NFPROTO_IPV4, 16, &address.octets()[..bytes])
        }
        When::Target6(address) => target(list, libc::NFPROTO_IPV6, 24, &address.octets()),
        When::Turned => {
            const STATUS: u32 = 2;
            const TARGET_CHANGED: u32 = 1 << 5;
            tracked(list, STATUS, TARGET_CHANGED)
        }
        When::Untracked => {
            const STATE: u32 = 0;
            const UNTRACKED: u32 = 1 << 6;
            tracked(list, STATE, UNTRACKED)
        }
        When::Above(rate, burst) => {
            const SECOND: u64 = 1;
            const PACKETS: u32 = 0;
            const ABOVE: u32 = 1;
            let data = Attributes::new()
                .bytes(1, &u64::from(rate).to_be_bytes())
                .bytes(2, &SECOND.to_be_bytes())
                .number(3, burst)
                .number(4, PACKETS)
                .number(5, ABOVE);
            expression(list, "limit", &data)
        }
    }
}

/// Adds the expressions of an outcome.
pub(super) fn then(list: Attributes, then: Then) -> Attributes {
    const DROP: u32 = 0;
    const ACCEPT: u32 = 1;
    match then {
        Then::Pass => verdict(list, ACCEPT),
        Then::PassUntracked => verdict(expression(list, "notrack", &Attributes::new()), ACCEPT),
        Then::Drop => verdict(list, DROP),
        Then::Turn => {
            let port = Attributes::new()
                .number(1, REGISTER)
                .nested(2, &Attributes::new().bytes(1, &PORT.to_be_bytes()));
            let list = expression(list, "immediate", &port);
            expression(list, "redir", &Attributes::new().number(1, REGISTER))
        }
        Then::Reset => {
            const RESET: u32 = 1;
            expression(list, "reject", &Attributes::new().number(1, RESET).bytes(2, &[0]))
        }
        Then::Refuse => {
            const UNREACHABLE: u32 = 2;
            const NOT_ALLOWED: u8 = 3;
            let data = Attributes::new().number(1, UNREACHABLE).bytes(2, &[NOT_ALLOWED]);
            expression(list, "reject", &data)
        }
    }
}

fn expression(list: Attributes, name: &str, data: &Attributes) -> Attributes {
    list.nested(1, &Attributes::new().text(1, name).nested(2, data))
}

fn verdict(list: Attributes, code: u32) -> Attributes {
    const VERDICT: u16 = 2;
    let verdict = Attributes::new().nested(VERDICT, &Attributes::new().number(1, code));
    expression(list, "immediate", &Attributes::new().number(1, 0).nested(2, &verdict))
}

fn compare(list: Attributes, how: u32, value: &[u8]) -> Attributes {
    let value = Attributes::new().bytes(1, value);
    expression(list, "cmp", &Attributes::new().number(1, REGISTER).number(2, how).nested(3, &value))
}

fn meta(list: Attributes, key: u32) -> Attributes {
    expression(list, "meta", &Attributes::new().number(1, REGISTER).number(2, key))
}

fn protocol(list: Attributes, number: i32) -> Attributes {
    const LAYER_4: u32 = 16;
    compare(meta(list, LAYER_4), EQUAL, &[u8::try_from(number).unwrap_or_default()])
}

fn payload(list: Attributes, base: u32, offset: u32, length: u32) -> Attributes {
    let data =
        Attributes::new().number(1, REGISTER).number(2, base).number(3, offset).number(4, length);
    expression(list, "payload", &data)
}

fn port_at(list: Attributes, offset: u32, port: u16) -> Attributes {
    const TRANSPORT: u32 = 2;
    compare(payload(list, TRANSPORT, offset, 2), EQUAL, &port.to_be_bytes())
}

fn target(list: Attributes, family: i32, offset: u32, begins: &[u8]) -> Attributes {
    const FAMILY: u32 = 15;
    const NETWORK: u32 = 1;
    let list = meta(list, FAMILY);
    let list = compare(list, EQUAL, &[u8::try_from(family).unwrap_or_default()]);
    let length = u32::try_from(begins.len()).unwrap_or_default();
    compare(payload(list, NETWORK, offset, length), EQUAL, begins)
}

/// A bit of what is known about the connection, which is kept in this machine's order.
fn tracked(list: Attributes, key: u32, bit: u32) -> Attributes {
    let list = expression(list, "ct", &Attributes::new().number(1, REGISTER).number(2, key));
    let data = Attributes::new()
        .number(1, REGISTER)
        .number(2, REGISTER)
        .number(3, 4)
        .nested(4, &Attributes::new().bytes(1, &bit.to_ne_bytes()))
        .nested(5, &Attributes::new().bytes(1, &[0; 4]));
    compare(expression(list, "bitwise", &data), NOT_EQUAL, &[0; 4])
}
