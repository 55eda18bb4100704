//! A gate that tells what arrives, and scripts inside that send it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use holm_runtime::{GateSockets, Machine};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;

use crate::rig::{Rig, sh};

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

/// The sockets of that sandbox, served.
pub fn serve_of(rig: &Rig, machine: &dyn Machine) -> Served {
    serve(rig.runtime.block_on(machine.gate_sockets()).unwrap().unwrap())
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
        if 'mtu' in more: s.setsockopt(socket.IPPROTO_IPV6, 24, more['mtu'])
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
pub fn check(machine: &dyn Machine, user: &str, rows: &[(&str, &str)]) {
    for (expression, want) in rows {
        let got = python(machine, user, &format!("print({expression})"));
        assert_eq!(got.trim_end(), *want, "{user}: {expression}");
    }
}
