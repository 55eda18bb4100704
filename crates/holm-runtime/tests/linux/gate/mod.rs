//! What programs inside send arrives at the gate's sockets, or is refused at once.

mod serve;
mod sockets;

use holm_runtime::{Driver as _, Layer, Machine, doctor};

use crate::harness::Test;
use crate::rig::{Rig, options, sh, spec};
pub use serve::serve_of;
use serve::{check, python};
pub use sockets::TESTS as SOCKETS;

pub const TESTS: &[Test] = &[
    ("gate_connections_arrive_with_their_target", connections_arrive_with_their_target),
    ("gate_answers_questions_for_names", answers_questions_for_names),
    ("gate_refuses_the_rest_at_once", refuses_the_rest_at_once),
    ("gate_leaves_what_is_inside_alone", leaves_what_is_inside_alone),
    ("gate_is_closed_without_its_owner", is_closed_without_its_owner),
    ("gate_cannot_be_changed_from_inside", cannot_be_changed_from_inside),
    ("gate_keeps_few_notes_of_connections", keeps_few_notes_of_connections),
    ("gate_can_be_missing", can_be_missing),
];

fn connections_arrive_with_their_target() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    targets(&*machine);
    served.stop();
    rig.close();
}

/// Of all forms in which a target can be named.
pub fn targets(machine: &dyn Machine) {
    check(
        machine,
        "sandbox",
        &[
            ("tcp('198.51.100.7', 8443)", "198.51.100.7:8443 198.51.100.7"),
            ("tcp('8.8.8.8', 53)", "8.8.8.8:53 8.8.8.8"),
            ("tcp('169.254.169.254', 80)", "169.254.169.254:80 169.254.169.254"),
            ("tcp('10.0.2.3', 1)", "10.0.2.3:1 10.0.2.3"),
            ("tcp('192.168.1.1', 65535)", "192.168.1.1:65535 192.168.1.1"),
            // Not the gate's own: a number like any other out there.
            ("tcp('198.51.100.7', 236)", "198.51.100.7:236 198.51.100.7"),
            ("tcp('198.51.100.7', 80, source='127.0.0.1')", "198.51.100.7:80 198.51.100.7"),
            ("tcp('2001:db8::1', 443)", "[2001:db8::1]:443 2001:db8::1"),
            ("tcp('fd00:ec2::254', 80)", "[fd00:ec2::254]:80 fd00:ec2::254"),
            ("tcp('::ffff:203.0.113.9', 80)", "203.0.113.9:80 ::ffff:203.0.113.9"),
            // Multipath TCP begins like any other connection.
            ("tcp('198.51.100.7', 80, protocol=262)", "198.51.100.7:80 198.51.100.7"),
        ],
    );
    // With data in its first packet.
    let early = "s = socket.socket()\n\
                 s.sendto(b'early', socket.MSG_FASTOPEN, ('198.51.100.8', 80)); \
                 print(s.recv(100).decode().strip())";
    assert_eq!(python(machine, "sandbox", early), "198.51.100.8:80\n");
}

fn answers_questions_for_names() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    check(
        &*machine,
        "sandbox",
        &[
            ("udp('8.8.8.8', 53)", "4 NAME 8.8.8.8 53"),
            ("udp('8.8.8.8', 53, connected=False)", "4 NAME 8.8.8.8 53"),
            ("udp('10.0.2.3', 53)", "4 NAME 10.0.2.3 53"),
            ("udp('10.0.2.3', 53, connected=False)", "4 NAME 10.0.2.3 53"),
            ("udp('fd00::3', 53)", "4 NAME fd00::3 53"),
            ("udp('fd00::3', 53, connected=False)", "4 NAME fd00::3 53"),
            ("udp('::ffff:9.9.9.9', 53)", "4 NAME ::ffff:9.9.9.9 53"),
            // As long as a datagram can be.
            ("udp('8.8.8.8', 53, b'x' * 65507)", "65507 XXXXXXXX 8.8.8.8 53"),
            // In pieces.
            ("udp('fd00::3', 53, b'x' * 5000, mtu=1280)", "5000 XXXXXXXX fd00::3 53"),
        ],
    );
    let file = sh(&*machine, "sandbox", "grep -v '#' /etc/resolv.conf");
    assert_eq!(file, "nameserver 10.0.2.3\nnameserver fd00::3\nexit 0\n");
    served.stop();
    rig.close();
}

fn refuses_the_rest_at_once() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    for user in ["sandbox", "root"] {
        check(
            &*machine,
            user,
            &[
                ("udp('198.51.100.7', 123)", "EPERM"),
                ("udp('198.51.100.7', 443, b'x' * 1200)", "EPERM"),
                ("udp('198.51.100.7', 123, connected=False)", "EPERM"),
                ("udp('198.51.100.7', 123, b'x' * 65507)", "EPERM"),
                ("udp('2001:db8::1', 443)", "EPERM"),
                ("udp('2001:db8::1', 443, connected=False)", "EPERM"),
                ("udp('224.0.0.251', 5353)", "EPERM"),
                ("udp('255.255.255.255', 67)", "EPERM"),
                ("udp('10.0.2.3', 236)", "EPERM"),
                ("udp('2001:db8::1', 443, b'x' * 5000, mtu=1280)", "EPERM"),
                // Datagrams of another kind, where the kernel has them at all.
                ("udp('8.8.8.8', 53, protocol=136) in ('EPERM', 'EPROTONOSUPPORT')", "True"),
                // By its own name.
                ("tcp('127.0.0.1', 236)", "ECONNREFUSED"),
                ("tcp('::1', 236)", "ECONNREFUSED"),
                ("tcp('::ffff:127.0.0.1', 236)", "ECONNREFUSED"),
                ("tcp('10.0.2.15', 236)", "ECONNREFUSED"),
                ("udp('127.0.0.1', 236)", "EPERM"),
                ("udp('::1', 236)", "EPERM"),
            ],
        );
    }
    served.stop();
    rig.close();
}

/// Connections and datagrams between programs inside, at every address that is their own.
const INSIDE: &str = r"
import threading
for host in ['127.0.0.1', '127.3.2.1', '10.0.2.15', '::1', 'fd00::15']:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    listener = socket.socket(family); listener.bind((host, 0)); listener.listen()
    def serve():
        s, peer = listener.accept(); s.sendall(peer[0].encode()); s.close()
    threading.Thread(target=serve).start()
    print(tcp(host, listener.getsockname()[1]))
    answerer = socket.socket(family, socket.SOCK_DGRAM); answerer.bind((host, 0))
    def answer():
        text, peer = answerer.recvfrom(70000); answerer.sendto(text, peer)
    threading.Thread(target=answer).start()
    print(udp(host, answerer.getsockname()[1], b'own' * 20000) == f'60000 ownownow {host} {answerer.getsockname()[1]}')
    print(tcp(host, 9), udp(host, 9))
";

fn leaves_what_is_inside_alone() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    let got = python(&*machine, "sandbox", INSIDE);
    let want = |host: &str, from: &str| format!("{from} {host}\nTrue\nECONNREFUSED ECONNREFUSED\n");
    let all = [
        want("127.0.0.1", "127.0.0.1"),
        want("127.3.2.1", "127.0.0.1"),
        want("10.0.2.15", "10.0.2.15"),
        want("::1", "::1"),
        want("fd00::15", "fd00::15"),
    ];
    assert_eq!(got, all.concat());
    // A name server of a program's own is its own.
    let own = "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 53))\n\
               c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.sendto(b'own', ('127.0.0.1', 53))\n\
               s.settimeout(20); print(s.recv(10))";
    assert_eq!(python(&*machine, "root", own), "b'own'\n");
    served.stop();
    rig.close();
}

/// Whether it has never asked for the sockets, has closed them, or was served for a while.
fn is_closed_without_its_owner() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    check(&*machine, "root", &[("tcp('198.51.100.7', 80)", "198.51.100.7:80 198.51.100.7")]);
    served.stop();
    let closed = [
        ("tcp('198.51.100.7', 80)", "ECONNREFUSED"),
        ("tcp('2001:db8::1', 80)", "ECONNREFUSED"),
        ("udp('8.8.8.8', 53)", "ECONNREFUSED"),
        ("udp('fd00::3', 53)", "ECONNREFUSED"),
        ("udp('8.8.8.8', 123)", "EPERM"),
    ];
    check(&*machine, "root", &closed);
    // What asks for a name learns at once that there is nobody.
    let name = "time.monotonic()\n\
                try: socket.getaddrinfo('name.example', 80)\n\
                except socket.gaierror as error: print(error.errno == socket.EAI_AGAIN)";
    assert_eq!(python(&*machine, "sandbox", name), "True\n");
    rig.close();
}

fn cannot_be_changed_from_inside() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    check(&*machine, "root", &[("tcp('198.51.100.7', 80)", "198.51.100.7:80 198.51.100.7")]);
    let tries = r"
import struct, fcntl
def attempt(work):
    try: work(); print('DONE')
    except OSError as error: print(errno.errorcode[error.errno])
def route(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack('=IHHII', 16 + len(body), kind, 1 | 4 | 0x400, 1, 0) + body)
    code = struct.unpack('=i', s.recv(4096)[16:20])[0]
    if code: raise OSError(-code, 'refused')
attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
# loopback down, another address, the default route gone
attempt(lambda: route(16, struct.pack('=BxHiII', 0, 0, 1, 0, 1)))
attempt(lambda: route(20, struct.pack('=BBBBI', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes([9, 9, 9, 9]))))
attempt(lambda: route(25, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 254, 0, 253, 1, 0)))
attempt(lambda: fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH', b'lo', 0) + bytes(22)))
attempt(lambda: socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1))
attempt(lambda: socket.socket().setsockopt(0, 19, 1))
attempt(lambda: socket.socket().setsockopt(0, 64, bytes(84)))
attempt(lambda: open('/proc/sys/net/ipv4/ip_forward', 'w').write('1'))
attempt(lambda: open('/proc/sys/net/netfilter/nf_conntrack_udp_timeout', 'w').write('1'))
";
    let want = "EAFNOSUPPORT\nEAFNOSUPPORT\nEPERM\nEPERM\nEACCES\n\
                EPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEPERM\nEROFS\nEROFS\n";
    assert_eq!(python(&*machine, "root", tries), want);
    check(&*machine, "root", &[("tcp('198.51.100.7', 80)", "198.51.100.7:80 198.51.100.7")]);
    served.stop();
    rig.close();
}

/// What the kernel notes of connections counts against nothing of the sandbox: none of those between
/// programs inside, and those to the gate not for long.
fn keeps_few_notes_of_connections() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    let script = r"
def count(): return int(open('/proc/sys/net/netfilter/nf_conntrack_count').read())
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen()
answerer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); answerer.bind(('127.0.0.1', 0))
for _ in range(100):
    s = socket.create_connection(listener.getsockname()); peer = listener.accept()[0]; s.close(); peer.close()
    d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.sendto(b'x', answerer.getsockname()); d.close()
    answerer.recv(1)
print(count())
for _ in range(10): tcp('198.51.100.7', 80)
print(count())
for name in ['tcp_timeout_time_wait', 'udp_timeout']:
    print(open('/proc/sys/net/netfilter/nf_conntrack_' + name).read().strip())
";
    assert_eq!(python(&*machine, "sandbox", script), "0\n10\n5\n10\n");
    served.stop();
    rig.close();
}

fn can_be_missing() {
    let mut options = options();
    options.without_gate = true;
    let rig = Rig::new(options.clone());
    let machine = rig.create(spec()).unwrap();
    assert!(rig.runtime.block_on(machine.gate_sockets()).unwrap().is_none());
    check(
        &*machine,
        "root",
        &[("tcp('198.51.100.7', 80)", "ENETUNREACH"), ("udp('8.8.8.8', 53)", "ENETUNREACH")],
    );
    assert_eq!(sh(&*machine, "sandbox", "grep -c nameserver /etc/resolv.conf"), "0\nexit 1\n");
    for found in [rig.driver.enforcement(), &doctor::report(&options)] {
        let row = found.layers.iter().find(|row| row.layer == Layer::EgressGate).unwrap();
        assert!(!row.enforced && !row.mandatory && row.mend.is_some(), "{row:?}");
    }
    rig.close();
}
