//! Sockets by which the owner connects to ports inside.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};

use holm_runtime::{Driver as _, DriverErrorKind, Lifetime, Machine, PortSockets};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::gate::serve_of;
use crate::harness::Test;
use crate::leftovers;
use crate::outlive::{Seen, detached, kill};
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("ports_are_reached_by_the_owners_sockets", are_reached_by_the_owners_sockets),
    ("ports_of_each_sandbox_are_its_own", of_each_sandbox_are_its_own),
    ("ports_sockets_reach_loopback_alone", sockets_reach_loopback_alone),
    ("ports_are_reached_after_launcher_and_owner", are_reached_after_launcher_and_owner),
    ("ports_may_be_asked_for_while_it_ends", may_be_asked_for_while_it_ends),
    ("ports_without_descriptors", without_descriptors),
];

/// New ones.
fn sockets(rig: &Rig, machine: &dyn Machine) -> PortSockets {
    rig.runtime.block_on(machine.port_sockets()).unwrap().unwrap()
}

/// Starts a server that sends `word` to everybody.
fn listen(machine: &dyn Machine, place: &str, word: &str) {
    let family = if place.contains(':') { "INET6" } else { "INET" };
    let script = format!(
        "(python3 -c \"import socket
s = socket.socket(socket.AF_{family}); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('{place}', 8000)); s.listen(); open('/tmp/{word}', 'w')
while True: c = s.accept()[0]; c.sendall(b'{word}'); c.close()\" > /dev/null 2>&1 &)
while [ ! -e /tmp/{word} ]; do sleep 0.01; done"
    );
    assert_eq!(sh(machine, "sandbox", &script), "exit 0\n");
}

/// What is heard at that address, by one of them.
fn hear(socket: OwnedFd, to: &str) -> Result<String, Errno> {
    let to: SocketAddr = to.parse().unwrap();
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    // It does not block, so that is waited for.
    poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::OUT)], None).unwrap();
    sockopt::socket_error(&socket).unwrap()?;
    let mut stream = TcpStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Errno::from_io_error(&error).unwrap()),
    }
}

/// All ways to a server, root or not.
pub fn check(rig: &Rig, machine: &dyn Machine) {
    let mut all = sockets(rig, machine);
    assert_eq!((all.v4.len(), all.v6.len()), (24, 8));
    for (v4, v6) in all.v4.iter().zip(&all.v6) {
        for socket in [v4, v6] {
            assert!(
                rustix::io::fcntl_getfd(socket).unwrap().contains(rustix::io::FdFlags::CLOEXEC)
            );
            assert!(
                rustix::fs::fcntl_getfl(socket).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
            );
            assert!(sockopt::tcp_nodelay(socket).unwrap());
            assert_eq!(sockopt::socket_recv_buffer_size(socket).unwrap(), 256 << 10);
            assert_eq!(sockopt::socket_send_buffer_size(socket).unwrap(), 256 << 10);
        }
    }
    assert_eq!(hear(all.v4.pop().unwrap(), "127.0.0.1:8000"), Err(Errno::CONNREFUSED));
    assert_eq!(hear(all.v6.pop().unwrap(), "[::1]:8000"), Err(Errno::CONNREFUSED));
    listen(machine, "127.0.0.1", "four");
    listen(machine, "::1", "six");
    assert_eq!(hear(all.v4.pop().unwrap(), "127.0.0.1:8000").as_deref(), Ok("four"));
    assert_eq!(hear(all.v6.pop().unwrap(), "[::1]:8000").as_deref(), Ok("six"));
}

fn are_reached_by_the_owners_sockets() {
    for blanks in [0, 1] {
        for without_gate in [false, true] {
            let mut options = options();
            (options.blanks, options.refill) = (blanks, blanks > 0);
            options.without_gate = without_gate;
            let rig = Rig::new(options);
            let machine = rig.create(spec()).unwrap();
            check(&rig, &*machine);
            rig.close();
        }
    }
}

fn of_each_sandbox_are_its_own() {
    let rig = Rig::new(options());
    let machines = [(); 2].map(|()| rig.create(spec()).unwrap());
    for (machine, word) in machines.iter().zip(["first", "second"]) {
        listen(&**machine, "0.0.0.0", word);
    }
    for (machine, word) in machines.iter().zip(["first", "second"]) {
        for socket in sockets(&rig, &**machine).v4 {
            assert_eq!(hear(socket, "127.0.0.1:8000").as_deref(), Ok(word));
        }
    }
    // Nor does what listens at this host matter to them.
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = host.local_addr().unwrap().to_string();
    let socket = sockets(&rig, &*machines[0]).v4.pop().unwrap();
    assert_eq!(hear(socket, &there), Err(Errno::CONNREFUSED));
    rig.close();
}

/// Whatever they are connected to by mistake is the gate's to judge, as for programs inside.
fn sockets_reach_loopback_alone() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let served = serve_of(&rig, &*machine);
    let one = || sockets(&rig, &*machine).v4.pop().unwrap();
    assert_eq!(hear(one(), "198.51.100.7:80").as_deref(), Ok("198.51.100.7:80\n"));
    let six = sockets(&rig, &*machine).v6.pop().unwrap();
    assert_eq!(hear(six, "[2001:db8::1]:80").as_deref(), Ok("[2001:db8::1]:80\n"));
    assert_eq!(hear(one(), "127.0.0.1:236"), Err(Errno::CONNREFUSED), "the gate's own");
    served.stop();
    assert_eq!(hear(one(), "198.51.100.7:80"), Err(Errno::CONNREFUSED));
    rig.close();
}

/// Those that somebody has go on, and every launcher makes more.
fn are_reached_after_launcher_and_owner() {
    let mut options = options();
    options.lifetime = Lifetime::Owner;
    let rig = Rig::new(options);
    let machine = rig.create(spec()).unwrap();
    let mut before = sockets(&rig, &*machine).v4;
    kill(rig.driver.launcher_pid());
    check(&rig, &*machine);
    assert_eq!(hear(before.pop().unwrap(), "127.0.0.1:8000").as_deref(), Ok("four"));
    rig.close();

    let mut seen = Seen::default();
    let rig = Rig::new(detached());
    let machine = rig.create(spec()).unwrap();
    seen.note();
    rig.runtime.block_on(rig.driver.leave());
    drop((machine, rig));
    let rig = Rig::new(detached());
    seen.note();
    let id = rig.driver.left_over().pop().unwrap();
    let machine = rig.driver.adopt(&id).unwrap();
    check(&rig, &*machine);
    rig.destroy(&*machine);
    rig.runtime.block_on(rig.driver.leave());
    seen.assert_none();
}

/// Whichever comes first, nothing waits and nothing is left, here or there.
fn may_be_asked_for_while_it_ends() {
    let rig = Rig::new(options());
    let instance = rig.driver.instance();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for _ in 0..20 {
        let machine = rig.create(spec()).unwrap();
        let ask = || rig.runtime.block_on(machine.port_sockets());
        let kept = ask().unwrap();
        rig.runtime.block_on(async {
            // Two at once: the second is refused, or finds that the first is done.
            let (mut asked, mut too) = (machine.port_sockets(), machine.port_sockets());
            let mut ended = machine.destroy();
            let (mut one, mut other) = (false, false);
            std::future::poll_fn(|context| {
                one = one || asked.as_mut().poll(context).is_ready();
                other = other || too.as_mut().poll(context).is_ready();
                ended.as_mut().poll(context)
            })
            .await
            .unwrap();
        });
        let error = ask().unwrap_err();
        assert_eq!(error.kind, DriverErrorKind::Internal, "one that is gone has no ports");
        // What somebody still has leads nowhere.
        let left = kept.unwrap().v4.pop().unwrap();
        assert_eq!(hear(left, "127.0.0.1:8000"), Err(Errno::CONNREFUSED));
    }
    leftovers::wait_until("descriptors are left", || open() <= before);
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// An owner that may open no more files gets no sockets then, and loses nothing.
fn without_descriptors() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let limit = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let few = Rlimit { current: Some(open), maximum: limit.maximum };
    setrlimit(Resource::Nofile, few).unwrap();
    let asked = rig.runtime.block_on(machine.port_sockets());
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(asked.is_err(), "{asked:?}");
    check(&rig, &*machine);
    let mut answer = sockets(&rig, &*machine).v4.pop().map(TcpStream::from).unwrap();
    assert!(answer.write_all(b"x").is_err(), "it is not connected");
    rig.close();
}
