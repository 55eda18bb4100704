//! What root inside and its neighbours try to get around the gate.

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;
use crate::refuse::Everywhere;

on_beds!(Root, root: root_inside_changes_no_rule, case_47_the_hosts_loopback_and_neighbours, the_gates_own_ports);
on_beds!(Rootless, rootless: case_47_the_hosts_loopback_and_neighbours, the_gates_own_ports);

/// Everything that would change how packets go; each must fail, whoever tries.
const CHANGES: &str = r#"
import ctypes, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def tried(what, work):
    try: work(); print(what, 'WORKED')
    except OSError as e: print(what, 'refused')
def netlink(protocol, kind, flags, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    s.bind((0, 0))
    s.settimeout(20)
    s.send(struct.pack('=IHHII', 16 + len(body), kind, flags, 1, 0) + body)
    try: answer = s.recv(4096)
    except TimeoutError: raise OSError(1, 'silence')
    length, kind, _, _, _ = struct.unpack('=IHHII', answer[:16])
    code = struct.unpack('=i', answer[16:20])[0] if kind == 2 else 0
    if code: raise OSError(-code, os.strerror(-code))
tried('flush the rules', lambda: netlink(12, 10 << 8 | 2, 5, struct.pack('>BBH', 1, 0, 0)))
def batch():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.settimeout(20)
    def message(kind, flags, body, n): return struct.pack('=IHHII', 16 + len(body), kind, flags, n, 0) + body
    s.send(message(16, 1, struct.pack('>BBH', 0, 0, 10), 1) + message(10 << 8 | 2, 5, struct.pack('>BBH', 0, 0, 0), 2)
        + message(17, 1, struct.pack('>BBH', 0, 0, 10), 3))
    code = struct.unpack('=i', s.recv(4096)[16:20])[0]
    if code: raise OSError(-code, 'no')
tried('delete all tables', batch)
tried('a new address', lambda: netlink(0, 20, 0x505, struct.pack('=BBBBI', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes([10, 9, 9, 9]))))
tried('lo down', lambda: netlink(0, 16, 5, struct.pack('=BxHiII', 0, 0, 1, 0, 1)))
tried('a new link', lambda: netlink(0, 16, 0x605, struct.pack('=BxHiII', 0, 0, 0, 0, 0) + struct.pack('=HH8s', 12, 3, b'dummy0\0\0')))
tried('a new route', lambda: netlink(0, 24, 0x505, struct.pack('=BBBBBBBBI', 2, 32, 0, 0, 254, 3, 0, 1, 0) + struct.pack('=HH4sHHI', 8, 1, bytes([9, 9, 9, 9]), 8, 4, 1)))
tried('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
tried('raw ip', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255))
tried('raw 6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
tried('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
tried('mark', lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1))
tried('transparent', lambda: socket.socket().setsockopt(socket.SOL_IP, 19, 1))
tried('another table', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255).setsockopt(0, 64, b'x' * 40))
def ns(flags):
    if libc.unshare(flags): raise OSError(ctypes.get_errno(), 'no')
tried('a network', lambda: ns(0x40000000))
tried('a user and a network', lambda: ns(0x50000000))
def enter():
    for pid in filter(str.isdigit, os.listdir('/proc')):
        f = os.open(f'/proc/{pid}/ns/net', os.O_RDONLY)
        if libc.setns(f, 0x40000000): raise OSError(ctypes.get_errno(), 'no')
tried('enter one', enter)
for name in ('net.ipv4.ip_forward', 'net.ipv4.conf.all.route_localnet', 'net.ipv6.conf.all.forwarding'):
    def write(): 
        with open('/proc/sys/' + name.replace('.', '/'), 'w') as f: f.write('1')
    tried(name, write)
"#;

fn root_inside_changes_no_rule(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!({"mode": "allow", "allow": ["203.0.113.10"]}));
    for user in home.users() {
        let said = inside.python_as(CHANGES, json!({"user": user}));
        assert!(said.lines().count() >= 15, "{said}");
        let worked: Vec<_> = said.lines().filter(|line| line.ends_with("WORKED")).collect();
        assert!(worked.is_empty(), "{user}: {worked:?}");
    }
    inside.check(&[
        ("tcp 203.0.113.10 80", "reached"),
        ("tcp 203.0.113.20 80", "refused"),
        ("udp 203.0.113.10 7", "refused"),
    ]);
    assert!(bed.internet.seen.connections().iter().all(|one| one.to.ip() == SITE4));
    mcp.end(home);
}

/// What listens inside belongs to the gate: it is neither taken over nor used past the rules.
fn the_gates_own_ports(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let code = r#"
import socket
ports = set()
for table, family in (('tcp', socket.AF_INET), ('tcp6', socket.AF_INET6), ('udp', socket.AF_INET), ('udp6', socket.AF_INET6)):
    for line in open('/proc/net/' + table).read().splitlines()[1:]:
        words = line.split()
        if words[3] in ('0A', '07'): ports.add((table[:3], family, int(words[1].split(':')[1], 16)))
print('listening', len(ports) > 0)
for kind, family, port in sorted(ports):
    own = '127.0.0.1' if family == socket.AF_INET else '::1'
    other = '10.0.2.15' if family == socket.AF_INET else 'fd00::15'
    for to in (own, other):
        s = socket.socket(family, socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
        s.settimeout(100)
        try:
            s.connect((to, port)); s.sendall(b'GET / HTTP/1.0\r\nHost: site.bed.test\r\n\r\n'); d = s.recv(100)
            print('used', kind, to) if d else None
        except TimeoutError: print('silent', kind, to)
        except OSError: pass
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        for at in (own, '0.0.0.0' if family == socket.AF_INET else '::'):
            s = socket.socket(family, socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                s.bind((at, port))
                if kind == 'tcp': s.listen(5)
                print('taken', kind, at)
            except OSError: pass
"#;
    for user in home.users() {
        let said = inside.python_as(code, json!({"user": user}));
        assert_eq!(said, "listening True", "{user}");
    }
    inside.check(&[("tcp site.bed.test 80", "reached")]);
    assert_eq!(bed.internet.seen.accepted(), 1);
    mcp.end(home);
}

fn case_47_the_hosts_loopback_and_neighbours(home: &Home, bed: &Bed) {
    let host = Everywhere::on(home, &[22]);
    let serve = home.serve(&["--bind", "0.0.0.0"], &[]);
    let port = serve.address.port();
    let client = Client { address: ([127, 0, 0, 1], port).into(), key: serve.key.clone() };
    let session = crate::probe::Session(&client, client.session());
    let inside = Inside::new(&session, json!("open"));
    // A neighbour that listens at all its addresses, and an abstract socket of the host.
    let neighbour = Inside::new(&session, json!("open"));
    neighbour.sh("setsid python3 -m http.server 8123 --bind :: >log 2>&1 & while ! curl -s -o /dev/null http://127.0.0.1:8123/; do sleep 0.02; done").good();
    let name = format!("holm-egress-{}", std::process::id());
    let abstract_ =
        rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("a name");
    let unix = rustix::net::socket(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        None,
    )
    .expect("a socket");
    rustix::net::bind(&unix, &abstract_).expect("the name is free");
    rustix::net::listen(&unix, 5).expect("it listens");
    let check = |ports: &[u16]| {
        let mut probes = Vec::new();
        for port in ports {
            for at in [
                "127.0.0.1",
                "127.0.0.53",
                "::1",
                "10.0.2.2",
                "10.0.2.3",
                "10.0.2.15",
                "fd00::15",
                "fd00::3",
                "fd00::2",
                "198.51.100.1",
                "203.0.113.77",
                "2001:db8:1::1",
                "0.0.0.0",
                "::ffff:127.0.0.1",
                "localhost",
            ] {
                probes.push(format!("tcp {at} {port}"));
            }
        }
        let expected: Vec<_> = probes.iter().map(|probe| (probe.as_str(), "refused")).collect();
        inside.check(&expected);
    };
    check(&[port, 22, 8123]);
    // One that is opened when the sandbox is there already.
    host.open(4321);
    check(&[4321]);
    let code = format!(
        "import socket\nfor n in ('{name}',):\n  s = socket.socket(socket.AF_UNIX)\n  try: s.connect('\\0' + n); print('connected')\n  except OSError: print('refused')\n\
         print([l for l in open('/proc/net/unix').read().splitlines()[1:] if 'holm' in l or '/run/' in l])"
    );
    assert_eq!(inside.python(&code), "refused\n[]");
    assert_eq!(host.accepted(), 0, "a port of the host");
    assert_eq!(bed.internet.seen.accepted(), 0);
    assert_eq!(bed.sent(), [], "on the cable");
    // A setting that allows one thing allows only that.
    let path = format!("/v1/sandboxes/{}/network", inside.id);
    let policy = json!({"mode": "allow", "allow": ["203.0.113.10:80", "127.0.0.0/8", "198.51.100.1", "10.0.0.0/8"]});
    assert_eq!(client.rest("PUT", &path, &json!({"network": policy})).status, 200);
    check(&[port, 22]);
    inside.check(&[("tcp 203.0.113.10 80", "reached"), ("tcp 203.0.113.10 8000", "refused")]);
    assert_eq!(host.accepted(), 0, "a port of the host");
    serve.end();
}
