//! Addresses and routes. What is bound to no address goes out by these, which all lead to loopback.

use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::message::{ACK, Attributes, Batch, CREATE, EXCLUSIVE};
use super::session::Session;

/// The sandbox's own addresses, the same in each.
pub(super) const ADDRESS_4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
pub(super) const ADDRESS_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x15);

/// The number of a namespace's first interface, which is loopback.
const LOOPBACK: u32 = 1;

const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Sets them. False when the host has no IPv6.
pub(super) fn configure() -> Result<bool, Errno> {
    let mut batch = Batch::default();
    add_address(&mut batch, libc::AF_INET, 32, &ADDRESS_4.octets());
    add_route(&mut batch, libc::AF_INET, &ADDRESS_4.octets());
    add_address(&mut batch, libc::AF_INET6, 128, &ADDRESS_6.octets());
    add_route(&mut batch, libc::AF_INET6, &ADDRESS_6.octets());
    let answers = Session::open(None)?.ask(&batch)?;
    let answer = |number: u32| answers.get(&number).copied().unwrap_or(Err(Errno::PROTO));
    answer(0).and(answer(1))?;
    Ok(answer(2).and(answer(3)).is_ok())
}

fn add_address(batch: &mut Batch, family: i32, prefix: u8, address: &[u8]) {
    const LOCAL: u16 = 2;
    const ADDRESS: u16 = 1;
    /// Nobody else is there who could have it, so nobody is asked, which would take a second.
    const UNASKED: u8 = 2;
    // struct ifaddrmsg: family, length of the prefix, flags, scope (all the world), interface.
    let mut fixed = vec![short(family), prefix, UNASKED, 0];
    fixed.extend(LOOPBACK.to_ne_bytes());
    let attributes = Attributes::new().bytes(LOCAL, address).bytes(ADDRESS, address);
    batch.add(NEW_ADDRESS, ACK | CREATE | EXCLUSIVE, &fixed, &attributes);
}

fn add_route(batch: &mut Batch, family: i32, source: &[u8]) {
    const MAIN_TABLE: u8 = 254;
    const BOOT: u8 = 3;
    const LINK_SCOPE: u8 = 253;
    const UNICAST: u8 = 1;
    const INTERFACE: u16 = 4;
    const PREFERRED_SOURCE: u16 = 7;
    // struct rtmsg: family, lengths of target and source (all), service, table, who made it,
    // scope, kind, and four bytes of flags.
    let scope = if family == libc::AF_INET { LINK_SCOPE } else { 0 };
    let fixed = [short(family), 0, 0, 0, MAIN_TABLE, BOOT, scope, UNICAST, 0, 0, 0, 0];
    let attributes =
        Attributes::new().bytes(INTERFACE, &LOOPBACK.to_ne_bytes()).bytes(PREFERRED_SOURCE, source);
    batch.add(NEW_ROUTE, ACK | CREATE | EXCLUSIVE, &fixed, &attributes);
}

fn short(family: i32) -> u8 {
    u8::try_from(family).unwrap_or_default()
}
