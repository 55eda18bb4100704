//! What programs inside send arrives at the gate's sockets, or is refused at once.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use holm_runtime::{DriverErrorKind, GateSockets, Machine};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;

use crate::harness::Test;
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("gate_connections_arrive_with_their_target", connections_arrive_with_their_target),
    ("gate_answers_questions_for_names", answers_questions_for_names),
    ("gate_refuses_the_rest_at_once", refuses_the_rest_at_once),
    ("gate_leaves_what_is_inside_alone", leaves_what_is_inside_alone),
    ("gate_is_closed_without_its_owner", is_closed_without_its_owner),
    ("gate_cannot_be_changed_from_inside", cannot_be_changed_from_inside),
    ("gate_sockets_are_the_owners_alone", sockets_are_the_owners_alone),
    ("gate_binds_again", binds_again),
    ("gate_can_be_missing", can_be_missing),
];

/// The sockets of a sandbox, served by a thread until they are closed.
pub struct Served {
    thread: JoinHandle<()>,
    stop: UnixStream,
}

/// Every connection is told where it wanted to go, and every question is answered with the same in
/// capitals.
pub fn serve(sockets: GateSockets) -> Served {
    let (stop, stopped) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || run(sockets, &stopped));
    Served { thread, stop }
}

impl Served {
    /// Closes all of them.
    pub fn stop(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

fn run(sockets: GateSockets, stopped: &UnixStream) {
    let listeners: Vec<TcpListener> = sockets.tcp.into_iter().map(TcpListener::from).collect();
    let answerers: Vec<UdpSocket> = sockets.dns.into_iter().map(UdpSocket::from).collect();
    loop {
        let fds = listeners.iter().map(AsFd::as_fd).chain(answerers.iter().map(AsFd::as_fd));
        let fds = fds.chain([stopped.as_fd()]);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut fds, None).unwrap();
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            return;
        }
        listeners.iter().for_each(tell_target);
        answerers.iter().for_each(answer);
    }
}

fn tell_target(listener: &TcpListener) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    stream.set_nonblocking(false).unwrap();
    let target: SocketAddr = match listener.local_addr().unwrap() {
        SocketAddr::V4(_) => sockopt::ip_original_dst(&stream).unwrap().into(),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(&stream).unwrap().into(),
    };
    stream.write_all(format!("{target}\n").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

fn answer(socket: &UdpSocket) {
    let mut buffer = vec![0; 70_000];
    let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
    socket.send_to(&buffer[..length].to_ascii_uppercase(), from).unwrap();
}

/// Functions for scripts inside.
const TOOLS: &str = r#"
import socket, sys, errno, time
def tcp(host, port, **more):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM, more.get('protocol', 0)); s.settimeout(20)
    try:
        if 'source' in more: s.bind((more['source'], 0))
        s.connect((host, port)); return s.recv(100).decode().strip() + ' ' + s.getpeername()[0]
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
    finally: s.close()
def udp(host, port, text=b'name', connected=True, **more):
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM, more.get('protocol', 0)); s.settimeout(20)
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if connected: s.connect((host, port)); s.send(text)
        else: s.sendto(text, (host, port))
        got, sender = s.recvfrom(70000); return f'{len(got)} {got[:8].decode()} {sender[0]} {sender[1]}'
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
    finally: s.close()
"#;

/// What such a script prints.
pub fn python(machine: &dyn Machine, user: &str, script: &str) -> String {
    let text = sh(machine, user, &format!("exec python3 - <<'EOF'\n{TOOLS}\n{script}\nEOF\n"));
    text.strip_suffix("exit 0\n").map_or_else(|| panic!("{script}: {text}"), str::to_owned)
}

/// Prints each expression and compares.
fn check(machine: &dyn Machine, user: &str, rows: &[(&str, &str)]) {
    for (expression, want) in rows {
        let got = python(machine, user, &format!("print({expression})"));
        assert_eq!(got.trim_end(), *want, "{user}: {expression}");
    }
}

fn connections_arrive_with_their_target() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let sockets = rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap();
    assert_eq!((sockets.tcp.len(), sockets.dns.len()), (2, 2));
    let served = serve(sockets);
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
    let served = serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
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
    let served = serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
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
    let served = serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
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
    let served = serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
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
    let served = serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap());
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

/// Sockets of a network namespace that somebody listens at, as the namespace's own list has them.
fn listening(pid: u32) -> Vec<String> {
    let mut inodes = Vec::new();
    for (name, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[1].ends_with(":00EC") && fields[3] == state {
                inodes.push(fields[9].to_owned());
            }
        }
    }
    inodes
}

/// Processes that hold one of these sockets.
fn holders(inodes: &[String]) -> Vec<u32> {
    let names: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let holds = |pid: &u32| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.into_iter().any(|link| names.iter().any(|name| link.to_str() == Some(name)))
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(holds).collect()
}

fn sockets_are_the_owners_alone() {
    let own = std::process::id();
    for blanks in [0, 1] {
        for lifetime in [holm_runtime::Lifetime::Launcher, holm_runtime::Lifetime::Owner] {
            let mut options = options();
            (options.blanks, options.refill, options.lifetime) = (blanks, blanks > 0, lifetime);
            let rig = Rig::new(options);
            let machine = rig.create(spec()).unwrap();
            // Whatever is still on its way is there when a command has run.
            assert_eq!(sh(&*machine, "root", "true"), "exit 0\n");
            let sockets = rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap();
            let inodes = listening(machine.init_pid());
            assert_eq!((inodes.len(), holders(&inodes)), (4, vec![own]), "{blanks} {lifetime:?}");
            drop(sockets);
            assert_eq!(listening(machine.init_pid()), Vec::<String>::new());
            rig.close();
        }
    }
}

fn binds_again() {
    let mut options = options();
    options.lifetime = holm_runtime::Lifetime::Owner;
    let rig = Rig::new(options);
    let machine = rig.create(spec()).unwrap();
    let ask = || rig.runtime.block_on(machine.gate_sockets());
    let first = ask().unwrap().unwrap();
    // While the first are open nobody can have their place.
    let error = ask().unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::InUse, "{error:?}");
    let served = serve(first);
    targets(&*machine);
    served.stop();
    for _ in 0..3 {
        let served = serve(ask().unwrap().unwrap());
        targets(&*machine);
        check(&*machine, "root", &[("udp('8.8.8.8', 53)", "4 NAME 8.8.8.8 53")]);
        served.stop();
    }
    rig.close();
}

fn can_be_missing() {
    let mut options = options();
    options.without_gate = true;
    let rig = Rig::new(options);
    let machine = rig.create(spec()).unwrap();
    assert!(rig.runtime.block_on(machine.gate_sockets()).unwrap().is_none());
    check(
        &*machine,
        "root",
        &[("tcp('198.51.100.7', 80)", "ENETUNREACH"), ("udp('8.8.8.8', 53)", "ENETUNREACH")],
    );
    assert_eq!(sh(&*machine, "sandbox", "grep -c nameserver /etc/resolv.conf"), "0\nexit 1\n");
    rig.close();
}
