//! What happens to what programs inside send: the rules as data, and their form for nf_tables.
//!
//! Nothing here is what keeps a sandbox in: its namespace has no way out. The rules bring to the gate
//! what the gate can serve, and refuse the rest at once, so that no program waits for an answer that
//! cannot come.

use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;
use rustix::net::netlink;

use super::PORT;
use super::link::{ADDRESS_4, ADDRESS_6};
use super::message::{ACK, APPEND, Attributes, Batch, CREATE, EXCLUSIVE};
use super::session::Session;

mod expression;

/// A list of rules at one point of a packet's way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain {
    /// Before connections are tracked.
    Track,
    /// Where the first packet of a connection gets another target.
    Turn,
    /// Last of all; refuses what no rule lets pass.
    Guard,
}

const CHAINS: [Chain; 3] = [Chain::Track, Chain::Turn, Chain::Guard];

/// What a packet is like. All conditions of a rule must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Protocol(i32),
    From(u16),
    To(u16),
    /// A target that begins with these bytes, of IPv4.
    Target4(Ipv4Addr, u8),
    Target6(Ipv6Addr),
    /// Its connection was turned to the gate.
    Turned,
    /// It belongs to no tracked connection, on purpose.
    Untracked,
    /// There are more than so many new ones a second, after so many at once.
    Above(u32, u32),
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Pass,
    /// Passes and is not tracked.
    PassUntracked,
    /// Goes to the gate.
    Turn,
    Drop,
    /// Is refused as by a port where nobody listens.
    Reset,
    /// Is refused as not allowed: the call that sends it fails with EPERM.
    Refuse,
}

type Rule = (Chain, &'static [When], Then);

/// Most new connections to the gate in a second, and at once: what bounds the kernel's notes of them
/// (`bound`). What is above is lost like any packet, and tried again by whoever sent it.
const PER_SECOND: u32 = 10_000;
const AT_ONCE: u32 = 20_000;

const RULES: [Rule; 18] = {
    use Chain::{Guard, Track};
    use Then::{Drop, Pass, PassUntracked, Refuse, Reset};
    use When::{Above, From, Protocol, Target4, Target6, To, Turned, Untracked};
    [
        // What the gate answers, and what the kernel says about a question to it, must be known as part
        // of the connection, to get its addresses back.
        (Track, &[From(PORT)], Pass),
        (Track, &[Protocol(libc::IPPROTO_ICMP)], Pass),
        (Track, &[Protocol(libc::IPPROTO_ICMPV6)], Pass),
        // Between programs inside nothing is looked at.
        (Track, &[Target4(Ipv4Addr::LOCALHOST, 1)], PassUntracked),
        (Track, &[Target4(ADDRESS_4, 4)], PassUntracked),
        (Track, &[Target6(Ipv6Addr::LOCALHOST)], PassUntracked),
        (Track, &[Target6(ADDRESS_6)], PassUntracked),
        // Only what is tracked comes here, so nothing that is for the sandbox itself.
        (Chain::Turn, &[Above(PER_SECOND, AT_ONCE)], Drop),
        (Chain::Turn, &[Protocol(libc::IPPROTO_TCP)], Then::Turn),
        (Chain::Turn, &[Protocol(libc::IPPROTO_UDP), To(53)], Then::Turn),
        (Guard, &[Turned], Pass),
        // That includes the refusal by the next rule.
        (Guard, &[Protocol(libc::IPPROTO_TCP), From(PORT)], Pass),
        // The gate serves nobody who comes to it by its own name.
        (Guard, &[Protocol(libc::IPPROTO_TCP), To(PORT)], Reset),
        (Guard, &[Protocol(libc::IPPROTO_UDP), To(PORT)], Refuse),
        (Guard, &[Untracked], Pass),
        // The kernel's own: no program inside may send any. They tell that a port is closed.
        (Guard, &[Protocol(libc::IPPROTO_ICMP)], Pass),
        (Guard, &[Protocol(libc::IPPROTO_ICMPV6)], Pass),
        (Guard, &[], Refuse),
    ]
};

/// Loads them into the namespace that this process is in: all, or none.
pub(super) fn load() -> Result<(), Errno> {
    let batch = batch();
    // Of the last message before the end an answer was asked for.
    let last = batch.count() - 2;
    let answers = Session::open(Some(netlink::NETFILTER))?.ask(&batch)?;
    if let Some(error) = answers.values().find_map(|answer| answer.err()) {
        return Err(error);
    }
    answers.get(&last).copied().unwrap_or(Err(Errno::PROTO))
}

const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
/// nf_tables among netfilter's parts.
const TABLES: u16 = 10;
const NEW_TABLE: u16 = TABLES << 8;
const NEW_CHAIN: u16 = TABLES << 8 | 3;
const NEW_RULE: u16 = TABLES << 8 | 6;

const NAME: &str = "holm";

fn batch() -> Batch {
    let mut batch = Batch::default();
    // struct nfgenmsg: family, version, and a number in the network's order.
    let part = [0, 0, 0, 10];
    // IPv4 and IPv6 in one.
    let inet = [1, 0, 0, 0];
    batch.add(BEGIN, 0, &part, &Attributes::new());
    batch.add(NEW_TABLE, CREATE | EXCLUSIVE, &inet, &Attributes::new().text(1, NAME));
    for chain in CHAINS {
        batch.add(NEW_CHAIN, CREATE | EXCLUSIVE, &inet, &chain_attributes(chain));
    }
    for (number, rule) in RULES.iter().enumerate() {
        let last = number + 1 == RULES.len();
        let flags = CREATE | APPEND | if last { ACK } else { 0 };
        batch.add(NEW_RULE, flags, &inet, &rule_attributes(rule));
    }
    batch.add(END, 0, &part, &Attributes::new());
    batch
}

fn chain_attributes(chain: Chain) -> Attributes {
    const OUTPUT: u32 = 3;
    const ACCEPT: u32 = 1;
    const DROP: u32 = 0;
    let (kind, priority, policy) = match chain {
        Chain::Track => ("filter", -300_i32, ACCEPT),
        Chain::Turn => ("nat", -100, ACCEPT),
        Chain::Guard => ("filter", 0, DROP),
    };
    let hook = Attributes::new().number(1, OUTPUT).number(2, priority.cast_unsigned());
    Attributes::new()
        .text(1, NAME)
        .text(3, name(chain))
        .nested(4, &hook)
        .number(5, policy)
        .text(7, kind)
}

fn name(chain: Chain) -> &'static str {
    match chain {
        Chain::Track => "track",
        Chain::Turn => "turn",
        Chain::Guard => "guard",
    }
}

fn rule_attributes((chain, conditions, then): &Rule) -> Attributes {
    let list =
        conditions.iter().fold(Attributes::new(), |list, when| expression::when(list, *when));
    let list = expression::then(list, *then);
    Attributes::new().text(1, NAME).text(2, name(*chain)).nested(4, &list)
}
