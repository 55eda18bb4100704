//! Names that lead astray.

use std::time::Duration;

use crate::bed::*;
use crate::common::*;
use crate::probe::{Inside, tally};

on_beds!(Root, root: names_of_private_addresses, rebinding, an_alias_of_a_private_name, very_long_and_broken_questions,
    case_49_the_hosts_stub_resolver, servers_of_names_that_fail, an_answer_for_another_question);
on_beds!(Rootless, rootless: rebinding, case_49_the_hosts_stub_resolver);

fn v6(text: &str) -> Data {
    Data::Aaaa(text.parse().expect("an address"))
}

fn names_of_private_addresses(home: &Home, bed: &Bed) {
    let dns = &bed.internet.dns;
    dns.name("ten.bed.test", &[Data::A([10, 0, 0, 7].into())]);
    dns.name("loop.bed.test", &[Data::A([127, 0, 0, 1].into()), v6("::1")]);
    dns.name("ula.bed.test", &[v6("fd00:ec2::254")]);
    dns.name("mapped.bed.test", &[v6("::ffff:10.0.0.7")]);
    dns.name("nat64.bed.test", &[v6("64:ff9b::a00:7")]);
    dns.name("host.bed.test", &[Data::A(HOLM_ALSO4), Data::Aaaa(HOLM6)]);
    dns.name("mixed.bed.test", &[Data::A([10, 0, 0, 7].into()), Data::A(SITE4)]);
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    for name in ["ten", "loop", "ula", "mapped", "nat64", "host"] {
        let said = inside.probe(&format!("tcp {name}.bed.test 80"));
        assert!(["refused", "noname"].contains(&said.as_str()), "{name}: {said}");
    }
    // Where a name has both, what may be reached is.
    inside.check(&[("tcp mixed.bed.test 80", "reached")]);
    assert_eq!(bed.internet.seen.accepted(), 1);
    assert_eq!(bed.internet.seen.connections()[0].to.ip(), SITE4);
    mcp.end(home);
}

/// The name's address changes between the check and the connect: each time somewhere inside.
fn rebinding(home: &Home, bed: &Bed) {
    bed.internet.dns.on("turn.bed.test", |query| match query.nth % 2 {
        0 => SITE4.into(),
        _ => Reply::from(std::net::Ipv4Addr::new(169, 254, 169, 254)),
    });
    let mcp = home.mcp();
    for policy in [json!("open"), json!({"mode": "allow", "allow": ["turn.bed.test"]})] {
        let inside = Inside::new(&mcp, policy);
        let said = inside.python(
            "import socket, urllib.request\nfor n in range(30):\n\
             \u{20} try: print(urllib.request.urlopen('http://turn.bed.test/', timeout=100).read().decode().strip())\n\
             \u{20} except TimeoutError: print('silent')\n\
             \u{20} except OSError: print('refused')\n",
        );
        let said = tally(&said);
        assert!(said.keys().all(|line| line == "hello 0" || line == "refused"), "{said:?}");
        assert!(said.contains_key("hello 0"), "{said:?}");
        // An address that it had from the first answer, and one that it makes up.
        inside.check(&[
            ("tcp 169.254.169.254 80", "refused"),
            ("http 169.254.169.254 80 turn.bed.test", "refused"),
        ]);
        inside.destroy();
    }
    let to: Vec<_> = bed.internet.seen.connections().iter().map(|one| one.to.ip()).collect();
    assert!(to.iter().all(|ip| *ip == SITE4), "{to:?}");
    assert!(bed.sent().iter().all(|flow| !flow.to.ip().to_string().starts_with("169.254")));
    mcp.end(home);
}

fn an_alias_of_a_private_name(home: &Home, bed: &Bed) {
    let dns = &bed.internet.dns;
    let chain = |last: Data| {
        vec![Data::Cname("b.bed.test".to_owned()), Data::Cname("c.bed.test".to_owned()), last]
    };
    dns.name("alias4.bed.test", &chain(Data::A([10, 0, 0, 7].into())));
    dns.name("alias6.bed.test", &chain(v6("fd00::7")));
    dns.name("good.bed.test", &chain(Data::A(SITE4)));
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    for name in ["alias4", "alias6"] {
        let said = inside.probe(&format!("tcp {name}.bed.test 80"));
        assert!(["refused", "noname"].contains(&said.as_str()), "{name}: {said}");
    }
    inside.check(&[("tcp good.bed.test 80", "reached")]);
    assert_eq!(bed.internet.seen.accepted(), 1);
    mcp.end(home);
}

/// Sends what no resolver would.
const HOSTILE: &str = r#"
import os, socket, struct
def ask(data):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: s.sendto(data, ('10.0.2.3', 53))
    except OSError: pass
    s.close()
head = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0)
for labels in (1, 4, 5, 100, 120, 500):
    for length in (1, 63, 64, 191, 255):
        ask((head + (bytes([length]) + b'a' * length) * labels + b'\0\0\1\0\1')[:60000])
ask(head + b'\xc0\x0c\0\1\0\1')
ask(head + b'\xff' * 500)
ask(head + b'\x05a\r\n\0b\0\0\1\0\1')
for n in range(2000): ask(os.urandom(n % 600))
for n in (0, 1, 11, 12, 13, 65535):
    try:
        s = socket.create_connection(('10.0.2.3', 53), 100)
        s.sendall(struct.pack('>H', n) + os.urandom(min(n, 20)))
        s.close()
    except OSError: pass
try: print(socket.getaddrinfo('a' * 60 + '.' + 'b' * 60 + '.' + 'c' * 60 + '.bed.test', 80)[0][4][0])
except socket.gaierror as e: print(e)
"#;

fn very_long_and_broken_questions(home: &Home, bed: &Bed) {
    let long = format!("{}.{}.{}.bed.test", "a".repeat(60), "b".repeat(60), "c".repeat(60));
    bed.internet.dns.name(&long, &[Data::A(SITE4)]);
    bed.internet.dns.on("text.bed.test", |_| {
        Reply::Verbatim(vec![Data::Txt("t".repeat(60_000)), Data::A(SITE4)])
    });
    bed.internet.dns.on("loop.bed.test", |_| {
        Reply::Verbatim(vec![Data::Cname("loop.bed.test".to_owned()); 50])
    });
    let mcp = home.mcp();
    let before = memory_peak(mcp.pid());
    let inside = Inside::new(&mcp, json!("open"));
    assert_eq!(inside.python(HOSTILE), SITE4.to_string(), "a long name that is one");
    inside.check(&[("name loop.bed.test", "noname"), ("tcp site.bed.test 80", "reached")]);
    let text = inside.probe("name text.bed.test");
    assert!([SITE4.to_string().as_str(), "noname"].contains(&text.as_str()), "{text}");
    let grown = memory_peak(mcp.pid()) - before;
    assert!(grown < 64 << 20, "{grown} bytes more");
    mcp.end(home);
}

fn servers_of_names_that_fail(home: &Home, bed: &Bed) {
    let dns = &bed.internet.dns;
    dns.on("broken.bed.test", |_| Reply::Code(2));
    dns.on("refused.bed.test", |_| Reply::Code(5));
    dns.on("late.bed.test", |_| Reply::Late(Duration::from_millis(700), Box::new(SITE4.into())));
    dns.on("silent.bed.test", |_| Reply::Silent);
    dns.on("garbage.bed.test", |_| Reply::Bytes(vec![0xff; 700]));
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[
        ("name broken.bed.test", "noname"),
        ("name refused.bed.test", "noname"),
        ("name garbage.bed.test", "noname"),
        ("name late.bed.test", "203.0.113.10"),
        ("name silent.bed.test", "noname"),
        ("tcp site.bed.test 80", "reached"),
    ]);
    mcp.end(home);
}

/// What a server adds to an answer about other names counts for nothing.
fn an_answer_for_another_question(home: &Home, bed: &Bed) {
    bed.internet.dns.on("mine.bed.test", |_| {
        Reply::Verbatim(vec![
            Data::A(SITE4),
            Data::Cname("site.bed.test".to_owned()),
            Data::A(OTHER4),
        ])
    });
    let mcp = home.mcp();
    let policy = json!({"mode": "allow", "allow": ["site.bed.test", "mine.bed.test:80"]});
    let inside = Inside::new(&mcp, policy);
    inside.probe("name mine.bed.test");
    inside.check(&[
        ("tls 203.0.113.20 443 site.bed.test", "refused"),
        ("read 203.0.113.20 2525", "refused"),
    ]);
    mcp.end(home);
}

/// The host's resolver file points to itself, as with systemd-resolved; inside nothing of it is seen.
fn case_49_the_hosts_stub_resolver(home: &Home, bed: &Bed) {
    let stub = std::net::UdpSocket::bind("127.0.0.53:53").expect("an address of the host");
    std::thread::spawn(move || {
        // Passes each question on to the real one.
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = stub.recv_from(&mut buffer) {
            let real = std::net::UdpSocket::bind("0.0.0.0:0").expect("a port");
            real.set_read_timeout(Some(Duration::from_secs(5))).expect("a time");
            real.send_to(&buffer[..length], (DNS4, 53)).expect("the cable");
            let mut answer = [0; 4096];
            if let Ok(length) = real.recv(&mut answer) {
                let _ = stub.send_to(&answer[..length], from);
            }
        }
    });
    bed.host
        .resolvers("nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch bed.test\n")
        .expect("written");
    let mcp = home.mcp();
    let on = Inside::new(&mcp, json!("open"));
    let servers = "sed -n 's/^nameserver //p' /etc/resolv.conf | sort";
    assert_eq!(on.sh(servers).good(), "10.0.2.3\nfd00::3");
    assert_eq!(
        on.sh("getent ahostsv4 site.bed.test | head -n1 | cut -d' ' -f1").good(),
        "203.0.113.10"
    );
    assert_eq!(
        on.sh("getent ahostsv6 site.bed.test | head -n1 | cut -d' ' -f1").good(),
        "2001:db8:10::10"
    );
    assert_eq!(bed.internet.dns.count("site.bed.test"), bed.internet.dns.asked().len());
    on.check(&[("tcp site.bed.test 80", "reached"), ("tcp 127.0.0.53 53", "refused")]);
    let asked = bed.internet.dns.asked().len();
    let off = Inside::new(&mcp, json!("none"));
    // Two, when it was not found: no time that could pass.
    let run = off.sh("getent hosts site.bed.test; echo $?");
    assert_eq!(run.good(), "2", "a clear failure");
    assert_eq!(off.probe("name site.bed.test"), "noname");
    for server in off.sh(servers).good().lines() {
        // What the file names is there, if only to say that it answers nothing.
        let code = format!(
            "import socket\ns = socket.socket(socket.AF_INET6 if ':' in '{server}' else socket.AF_INET, socket.SOCK_DGRAM)\n\
             s.settimeout(100)\ns.sendto(b'\\0\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4site\\3bed\\4test\\0\\0\\1\\0\\1', ('{server}', 53))\n\
             print(s.recv(512)[3] & 15 > 0)"
        );
        assert_eq!(off.python(&code), "True", "{server}");
    }
    assert_eq!(bed.internet.dns.asked().len(), asked, "nothing was sent upstream");
    mcp.end(home);
}
