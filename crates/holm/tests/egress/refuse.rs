//! What is refused under `open`, whatever the spelling, and each time at once. The internet of the
//! testbed answers at all these addresses, so what is let through does connect.

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;

/// A test of each name: none of the probes may be reached, and nothing may be on the cable that is
/// no question for a name.
macro_rules! refused {
    ($($name:ident: [$($probe:literal),* $(,)?];)*) => {
        $(fn $name(home: &Home, bed: &Bed) { all_refused(home, bed, &[$($probe),*]); })*
        on_beds!(Root, root: an_address_that_comes_while_a_sandbox_runs_is_refused, $($name),*, case_46_metadata_in_every_spelling);
    };
}

refused! {
    the_metadata_address: ["tcp 169.254.169.254 80", "tcp 169.254.169.254 443", "tcp 169.254.170.2 80"];
    mapped_addresses: ["tcp ::ffff:169.254.169.254 80", "tcp ::ffff:a9fe:a9fe 80", "tcp ::ffff:10.1.2.3 80", "tcp ::ffff:127.0.0.1 80"];
    numbers_that_are_addresses: ["tcp 2852039166 80", "tcp 0xa9fea9fe 80", "tcp 0251.0376.0251.0376 80",
        "tcp 0xA9.0xFE.0xA9.0xFE 80", "tcp 169.254.43518 80", "tcp 169.16689662 80", "tcp 167772161 80"];
    private_ranges: ["tcp 10.0.0.1 80", "tcp 10.255.255.254 80", "tcp 172.16.0.1 80", "tcp 172.31.255.254 80",
        "tcp 192.168.0.1 80", "tcp 192.168.255.254 443", "tcp fd12:3456::1 80", "tcp fc00::1 80"];
    shared_and_other_reserved_ranges: ["tcp 100.64.0.1 80", "tcp 100.127.255.254 80", "tcp 198.18.0.1 80", "tcp 192.0.0.8 80",
        "tcp 240.0.0.1 80", "tcp 255.255.255.255 80", "tcp 0.1.2.3 80", "tcp 168.63.129.16 80"];
    link_local: ["tcp 169.254.0.1 80", "tcp 169.254.255.254 80", "tcp fe80::1%lo 80", "tcp fe80::fc:ff:fe00:1%lo 80"];
    multicast: ["tcp 224.0.0.1 80", "tcp 239.255.255.250 80", "tcp ff02::1%lo 80", "tcp ff0e::1 80"];
    translated_addresses: ["tcp 64:ff9b::a9fe:a9fe 80", "tcp 64:ff9b::7f00:1 80", "tcp 64:ff9b:1::a00:1 80",
        "tcp 2002:a9fe:a9fe::1 80", "tcp 2002:7f00:1::1 80", "tcp ::169.254.169.254 80", "tcp ::10.0.0.1 80"];
    the_hosts_own_addresses: ["tcp 198.51.100.1 80", "tcp 203.0.113.77 80", "tcp 2001:db8:1::1 80", "tcp 2001:db8:77::1 80"];
}

/// Addresses inside are the sandbox's own: something else listens on all ports of the host.
fn all_refused(home: &Home, bed: &Bed, probes: &[&str]) {
    let _listening = home.command_of("python3".as_ref());
    let server = Everywhere::on(home, &[80, 443]);
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let expected: Vec<_> = probes.iter().map(|probe| (*probe, "refused")).collect();
    inside.check(&expected);
    assert_eq!(server.accepted(), 0, "the host was reached");
    assert_eq!(bed.internet.seen.accepted(), 0, "{:?}", bed.internet.seen.connections());
    assert_eq!(bed.sent(), [], "on the cable");
    // Each is told of, or never came to the gate, for the kernel inside knows no way there.
    let denials = inside.denials();
    assert!(
        denials.iter().all(|denial| denial["rule"].is_string() && denial["at"].is_string()),
        "{denials:?}"
    );
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    mcp.end(home);
}

/// A server on the host itself, at all its addresses.
pub struct Everywhere {
    accepted: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Everywhere {
    pub fn on(_home: &Home, ports: &[u16]) -> Self {
        let this = Self { accepted: std::sync::Arc::default() };
        for port in ports {
            this.open(*port);
        }
        this
    }

    /// The thread that calls is in the host's network. The server's ends with the process.
    pub fn open(&self, port: u16) {
        let listener = std::net::TcpListener::bind(("::", port)).expect("a port of the host");
        let accepted = std::sync::Arc::clone(&self.accepted);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accepted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                // Whoever came may have gone.
                let _ =
                    std::io::Write::write_all(&mut stream.expect("a connection"), b"the host\n");
            }
        });
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(std::sync::atomic::Ordering::SeqCst)
    }
}

/// The case's own list, by an ordinary client with its own time limit of two seconds, which must
/// not be what ends it.
fn case_46_metadata_in_every_spelling(home: &Home, bed: &Bed) {
    bed.internet.dns.name("metadata.google.internal", &[Data::A([169, 254, 169, 254].into())]);
    bed.internet.dns.name(
        "instance-data.bed.test",
        &[
            Data::A([100, 100, 100, 200].into()),
            Data::Aaaa("fd00:ec2::254".parse().expect("an address")),
        ],
    );
    bed.internet.dns.name(
        "mapped.bed.test",
        &[Data::Aaaa("::ffff:169.254.169.254".parse().expect("an address"))],
    );
    let mcp = home.mcp();
    for policy in [json!(null), json!("open")] {
        let inside = Inside::new(&mcp, policy);
        for target in [
            "169.254.169.254",
            "100.100.100.200",
            "169.254.170.2",
            "2852039166",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[fd00:ec2::254]",
            "metadata.google.internal",
            "instance-data.bed.test",
            "mapped.bed.test",
        ] {
            let curl = format!("curl -sS --max-time 2 http://{target}/latest/meta-data/");
            let run = inside.sh(&curl);
            assert!(run.exit_code != 0 && run.stdout.is_empty(), "{target}: {run:?}");
            assert_ne!(run.exit_code, 28, "{target} is refused, not left waiting: {run:?}");
        }
        inside.destroy();
    }
    assert_eq!(bed.internet.seen.accepted(), 0, "{:?}", bed.internet.seen.connections());
    let sent = bed.sent();
    assert!(sent.iter().all(|flow| [DNS4.into(), DNS6.into()].contains(&flow.to.ip())), "{sent:?}");
    mcp.end(home);
}

/// The machine's addresses are those of this moment, not of the start.
fn an_address_that_comes_while_a_sandbox_runs_is_refused(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let (both, all) = (["203.0.113.99", "2001:db8:99::1"], |what: &str| {
        let probes = ["tcp 203.0.113.99 80", "tcp 2001:db8:99::1 80"];
        inside.check(&probes.map(|probe| (probe, what)));
    });
    all("reached");
    // A server of the host at all of its addresses, which nobody inside may come to.
    let server = std::net::TcpListener::bind("[::]:0").expect("a server");
    server.set_nonblocking(true).expect("a listener");
    let port = server.local_addr().expect("an address").port();
    let come =
        "address add 203.0.113.99/32 dev wan\naddress add 2001:db8:99::1/128 dev wan nodad\n";
    bed.host.ip(come).expect("two more addresses");
    all("refused");
    for address in both {
        inside.check(&[(&format!("tcp {address} {port}"), "refused")]);
        let denied = inside.denials().pop().expect("a refusal");
        assert_eq!((&denied["address"], &denied["port"]), (&json!(address), &json!(port)));
    }
    let met = server.accept().expect_err("nobody came");
    assert_eq!(met.kind(), std::io::ErrorKind::WouldBlock);
    bed.host.ip(&come.replace("add ", "del ").replace(" nodad", "")).expect("they go");
    all("reached");
    mcp.end(home);
}
