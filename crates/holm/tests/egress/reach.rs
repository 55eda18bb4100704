//! What `open`, the default, reaches.

use std::collections::BTreeSet;

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;

on_beds!(Root, root: the_public_is_reached, other_datagrams_fail_at_once, counters_agree_with_the_servers,
    names_over_both_transports, the_proxy_variables_of_the_host_stay_outside);
on_beds!(Rootless, rootless: the_public_is_reached, other_datagrams_fail_at_once, names_over_both_transports);

fn the_public_is_reached(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!(null));
    inside.check(&[
        ("tcp 203.0.113.10 80", "reached"),
        ("tcp 203.0.113.20 22", "reached"),
        ("tcp 2001:db8:10::10 80", "reached"),
        ("tcp 2001:db8:20::20 8080", "reached"),
        ("tcp site.bed.test 8000", "reached"),
        ("tls site.bed.test 443 site.bed.test", "reached"),
        ("tls 2001:db8:10::10 443 site.bed.test", "reached"),
        ("read 203.0.113.10 2525", "reached"),
        ("read site.bed.test 2525", "reached"),
        ("tcp 203.0.113.10 53", "refused"), // it is the gate's own DNS, which HTTP is none for
        ("tcp 203.0.113.10 4444", "refused"), // nobody listens
        ("name other.bed.test", "2001:db8:20::20 203.0.113.20"),
        ("name none.bed.test", "noname"),
    ]);
    // The servers saw who was dialled, and by whom: the host, not the sandbox.
    let seen = bed.internet.seen.connections();
    let to: BTreeSet<_> = seen.iter().map(|one| one.to.to_string()).collect();
    for address in
        ["203.0.113.10:80", "203.0.113.20:22", "[2001:db8:10::10]:80", "[2001:db8:20::20]:8080"]
    {
        assert!(to.contains(address), "{address} in {to:?}");
    }
    let by: BTreeSet<_> = seen.iter().map(|one| one.from.ip()).collect();
    assert!(
        !by.is_empty()
            && by.iter().all(|ip| [
                HOLM4.into(),
                HOLM6.into(),
                HOLM_ALSO4.into(),
                HOLM_ALSO6.into()
            ]
            .contains(ip)),
        "{by:?}"
    );
    // An ordinary client, which believes the authority that it is shown.
    inside.write("ca.pem", authority_pem().expect("a certificate"));
    let curl = "curl -sS --cacert ca.pem https://site.bed.test/bytes/7 && curl -sS -6 http://other.bed.test/";
    assert_eq!(inside.sh(curl).good(), "xxxxxxxhello 0");
    mcp.end(home);
}

fn other_datagrams_fail_at_once(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[
        ("udp 203.0.113.10 443", "refused"),
        ("udp 203.0.113.10 123", "refused"),
        ("udp 203.0.113.10 7", "refused"),
        ("udp 2001:db8:10::10 443", "refused"),
        ("udp 2001:db8:10::10 123", "refused"),
        ("udp site.bed.test 443", "refused"),
        ("udp 239.1.2.3 9999", "refused"),
        ("udp ff02::fb%lo 5353", "refused"),
    ]);
    let udp = bed.sent().into_iter().filter(|flow| flow.protocol == "udp" && flow.to.port() != 53);
    assert_eq!(udp.collect::<Vec<_>>(), [], "on the cable");
    assert_eq!(bed.internet.seen.datagrams(), []);
    mcp.end(home);
}

fn counters_agree_with_the_servers(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let transfer = "head -c 2000000 /dev/zero >big; curl -sS http://203.0.113.10/bytes/3000000 | wc -c; \
        curl -sS -T big http://203.0.113.20:8000/x";
    inside.write("up.py", "import socket\ns = socket.create_connection(('2001:db8:10::10', 7))\n\
        n = 0\nfor _ in range(100):\n  s.sendall(b'y' * 10000)\n  while n % 10000 or not n: n += len(s.recv(10000))\n  n = 0\n\
        s.shutdown(1)\nprint(s.recv(1))");
    assert_eq!(inside.sh("python3 up.py").good(), "b''");
    let said = inside.sh(transfer);
    assert_eq!(said.good(), "3000000\nhello 2000000");
    // Everything is over, so nothing is on its way.
    until("the connections to be over", || (inside.count("connections_open") == 0).then_some(()));
    until("the servers to have noticed", || (bed.internet.seen.open() == 0).then_some(()));
    let seen = &bed.internet.seen;
    assert_eq!(inside.count("bytes_out"), seen.bytes_read(), "{}", inside.get());
    assert_eq!(inside.count("bytes_in"), seen.bytes_written(), "{}", inside.get());
    assert_eq!(inside.count("connections"), seen.accepted());
    assert!(seen.bytes_written() > 4_000_000 && seen.bytes_read() > 3_000_000);
    mcp.end(home);
}

/// Questions as they are on the wire, to any address and by either transport.
const ASK: &str = r#"
import socket, struct
def question(name, kind, n):
    q = b''.join(bytes([len(l)]) + l.encode() for l in name.split('.')) + b'\0'
    return struct.pack('>HHHHHH', n, 0x100, 1, 0, 0, 0) + q + struct.pack('>HH', kind, 1)
def udp(to, name, kind):
    s = socket.socket(socket.AF_INET6 if ':' in to else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(100)
    s.sendto(question(name, kind, 77), (to, 53))
    a, who = s.recvfrom(65535)
    return a, who[0] == to
def tcp(to, name, kind):
    s = socket.create_connection((to, 53), 100)
    q = question(name, kind, 78)
    s.sendall(struct.pack('>H', len(q)) + q)
    f = s.makefile('rb')
    return f.read(struct.unpack('>H', f.read(2))[0]), True
def show(way, to, name, kind):
    a, right = way(to, name, kind)
    i, flags, _, answers = struct.unpack('>HHHH', a[:8])
    print(way.__name__, to, name, kind, 'code', flags & 15, 'cut', flags >> 9 & 1, 'answers', answers, right)
for to in ('10.0.2.3', '203.0.113.53', '192.0.2.99', 'fd00::3', '2001:db8:99::1'):
    show(udp, to, 'site.bed.test', 1)
    show(tcp, to, 'site.bed.test', 28)
show(udp, '10.0.2.3', 'none.bed.test', 1)
show(udp, '10.0.2.3', 'many.bed.test', 1)
show(tcp, '10.0.2.3', 'many.bed.test', 1)
"#;

fn names_over_both_transports(home: &Home, bed: &Bed) {
    bed.internet.dns.on("many.bed.test", |_| {
        Reply::Records((0..200).map(|n| Data::A([203, 0, 114, n].into())).collect())
    });
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let said = inside.python(ASK);
    let mut expected = String::new();
    for to in ["10.0.2.3", "203.0.113.53", "192.0.2.99", "fd00::3", "2001:db8:99::1"] {
        expected += &format!("udp {to} site.bed.test 1 code 0 cut 0 answers 1 True\n");
        expected += &format!("tcp {to} site.bed.test 28 code 0 cut 0 answers 1 True\n");
    }
    expected += "udp 10.0.2.3 none.bed.test 1 code 3 cut 0 answers 0 True\n";
    let (known, rest) = said.split_at(expected.trim_end().len().min(said.len()));
    assert_eq!(known, expected.trim_end());
    // What is too long for a datagram is cut, said to be, and whole over TCP, at most by a bound.
    let rest: Vec<_> = rest.trim().lines().collect();
    assert!(rest[0].starts_with("udp 10.0.2.3 many.bed.test 1 code 0 cut 1"), "{rest:?}");
    assert!(rest[1].starts_with("tcp 10.0.2.3 many.bed.test 1 code 0 cut 0 answers"), "{rest:?}");
    // Only the host's own server of names was asked, whoever the sandbox asked.
    for flow in bed.sent() {
        assert!([DNS4.into(), DNS6.into()].contains(&flow.to.ip()), "{flow:?}");
    }
    mcp.end(home);
}

fn the_proxy_variables_of_the_host_stay_outside(home: &Home, _bed: &Bed) {
    let mcp = home.mcp_with(&[("HTTPS_PROXY", "http://user:secret@203.0.113.128:3128")]);
    let inside = Inside::new(&mcp, json!("open"));
    assert_eq!(inside.sh("env | grep -ci proxy; true").good(), "0");
    assert_eq!(
        inside.sh("cat /proc/[0-9]*/environ 2>/dev/null | grep -c secret; true").good(),
        "0"
    );
    mcp.end(home);
}
