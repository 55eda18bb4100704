//! Compiles a table to a filter program: a binary search over ranges of numbers with equal rules,
//! because the kernel walks the program once for every number when it is loaded and a straight
//! list would make that slow.

use super::table::{Row, Rule, errno};

/// `AUDIT_ARCH_X86_64`
pub(super) const ARCH: u32 = 0xC000_003E;

pub(super) const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
pub(super) const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCH: u32 = 4;
/// Low half of an argument; the machine is little-endian.
const fn offset_arg(n: u32) -> u32 {
    16 + 8 * n
}

const LOAD: u16 = op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
const RETURN: u16 = op(libc::BPF_RET | libc::BPF_K);
const JUMP: u16 = op(libc::BPF_JMP | libc::BPF_JA);
const IF_EQ: u16 = op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
const IF_GE: u16 = op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K);
const IF_SET: u16 = op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K);

#[allow(clippy::cast_possible_truncation, reason = "all operations are below 256")]
const fn op(code: u32) -> u16 {
    code as u16
}

type Code = Vec<libc::sock_filter>;

fn plain(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn branch(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn refuse(value: u16) -> u32 {
    libc::SECCOMP_RET_ERRNO | u32::from(value)
}

/// The whole program.
pub(super) fn compile(rows: &[Row]) -> Result<Code, String> {
    let ranges = ranges(rows);
    let mut code = vec![
        plain(LOAD, OFFSET_ARCH),
        branch(IF_EQ, ARCH, 1, 0),
        // Another architecture's numbers would mean other calls.
        plain(RETURN, KILL),
        plain(LOAD, OFFSET_NUMBER),
    ];
    code.extend(search(&ranges)?);
    if code.len() > 4096 {
        return Err("the system call filter is longer than the kernel allows".into());
    }
    Ok(code)
}

/// First number of each range, and its rule. Gaps and what is beyond the end are unknown calls.
fn ranges(rows: &[Row]) -> Vec<(u32, Rule)> {
    let unknown = Rule::Errno(errno(libc::ENOSYS));
    let mut ranges: Vec<(u32, Rule)> = Vec::new();
    let mut add = |start: u32, rule: Rule| {
        if ranges.last().is_none_or(|(_, last)| *last != rule) {
            ranges.push((start, rule));
        }
    };
    let mut next = 0;
    for row in rows {
        if row.number > next {
            add(next, unknown);
        }
        add(row.number, row.rule);
        next = row.number + 1;
    }
    add(next, unknown);
    ranges
}

fn search(ranges: &[(u32, Rule)]) -> Result<Code, String> {
    match ranges {
        [] => Err("an empty system call table".into()),
        [(_, rule)] => Ok(apply(*rule)),
        _ => {
            let (left, right) = ranges.split_at(ranges.len() / 2);
            let middle = right[0].0;
            let (left, right) = (search(left)?, search(right)?);
            let skip = u32::try_from(left.len()).map_err(|_| "filter too long")?;
            let mut code = Code::new();
            // Branches reach 255 instructions; a jump reaches further.
            match u8::try_from(skip) {
                Ok(skip) => code.push(branch(IF_GE, middle, skip, 0)),
                Err(_) => {
                    code.push(branch(IF_GE, middle, 0, 1));
                    code.push(plain(JUMP, skip));
                }
            }
            code.extend(left);
            code.extend(right);
            Ok(code)
        }
    }
}

/// Every flag of `clone` that makes a namespace.
pub(super) const NAMESPACES: u32 = 0x7E02_0000;
/// `CLONE_NEWTIME`, which `clone` cannot take because it lies in the exit signal's bits.
const NEWTIME: u32 = 0x80;

fn apply(rule: Rule) -> Code {
    let eperm = refuse(errno(libc::EPERM));
    match rule {
        Rule::Allow => vec![plain(RETURN, ALLOW)],
        Rule::Errno(value) => vec![plain(RETURN, refuse(value))],
        Rule::Clone => flags_clear(NAMESPACES),
        Rule::Unshare => flags_clear(NAMESPACES | NEWTIME),
        Rule::Socket => socket(),
        Rule::Ioctl => any_of(1, &[0x5412, 0x541C], eperm, ALLOW),
        // Native, 32-bit look (uname), each with or without randomised addresses, and the query.
        Rule::Personality => {
            any_of(0, &[0, 8, 0x0004_0000, 0x0004_0008, 0x0002_0000, 0xFFFF_FFFF], ALLOW, eperm)
        }
        // Both halves of the pointer to the new limit must be 0 where another process is named.
        Rule::Prlimit => vec![
            plain(LOAD, offset_arg(0)),
            branch(IF_EQ, 0, 4, 0),
            plain(LOAD, offset_arg(2)),
            branch(IF_EQ, 0, 0, 3),
            plain(LOAD, offset_arg(2) + 4),
            branch(IF_EQ, 0, 0, 1),
            plain(RETURN, ALLOW),
            plain(RETURN, eperm),
        ],
    }
}

/// What the network knows how to treat. Whoever asks for another may have the host load a module.
const PROTOCOLS: [libc::c_int; 7] = [
    libc::IPPROTO_IP,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
    libc::IPPROTO_UDPLITE,
    libc::IPPROTO_MPTCP,
];
/// Kinds of sockets beyond streams, datagrams and raw ones.
const OTHER_KINDS: u32 = 0xC;

fn socket() -> Code {
    let mut code = vec![
        plain(LOAD, offset_arg(0)),
        branch(IF_EQ, family(libc::AF_NETLINK), 0, 3),
        plain(LOAD, offset_arg(2)),
        branch(IF_EQ, family(libc::NETLINK_ROUTE), 4, 0),
        plain(RETURN, refuse(errno(libc::EAFNOSUPPORT))),
        branch(IF_EQ, family(libc::AF_INET), 4, 0),
        branch(IF_EQ, family(libc::AF_INET6), 3, 0),
        branch(IF_EQ, family(libc::AF_UNIX), 0, 1),
        plain(RETURN, ALLOW),
        plain(RETURN, refuse(errno(libc::EAFNOSUPPORT))),
        plain(LOAD, offset_arg(1)),
        branch(IF_SET, OTHER_KINDS, 0, 1),
        plain(RETURN, refuse(errno(libc::EPROTONOSUPPORT))),
    ];
    let values = PROTOCOLS.map(family);
    code.extend(any_of(2, &values, ALLOW, refuse(errno(libc::EPROTONOSUPPORT))));
    code
}

#[allow(clippy::cast_sign_loss, reason = "families and protocols are small positive numbers")]
const fn family(value: libc::c_int) -> u32 {
    value as u32
}

fn flags_clear(flags: u32) -> Code {
    vec![
        plain(LOAD, offset_arg(0)),
        branch(IF_SET, flags, 0, 1),
        plain(RETURN, refuse(errno(libc::EPERM))),
        plain(RETURN, ALLOW),
    ]
}

/// `hit` when the argument is one of `values`, else `miss`.
fn any_of(arg: u32, values: &[u32], hit: u32, miss: u32) -> Code {
    let mut code = vec![plain(LOAD, offset_arg(arg))];
    let mut left = u8::try_from(values.len()).unwrap_or(u8::MAX);
    for value in values {
        code.push(branch(IF_EQ, *value, left, 0));
        left -= 1;
    }
    code.push(plain(RETURN, miss));
    code.push(plain(RETURN, hit));
    code
}
