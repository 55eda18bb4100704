//! Which names are asked for, and which addresses are told.

use std::net::IpAddr;

use holm_gate::Protocol;

use super::client::{World, policies};
use super::upstream::{A, AAAA, Asked, CNAME, SOA, Say, Upstream, a, aaaa, cname, yes};

const NO_SUCH_NAME: u8 = 3;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Whatever name is asked for has this address, or its aliases have.
fn world(asked: &Asked) -> Say {
    let soa = (
        "example",
        SOA,
        300,
        [&b"\x02ns\x07example\x00\x01h\x07example\x00"[..], &[0; 20]].concat(),
    );
    match (&*asked.name.to_ascii_lowercase(), asked.kind) {
        ("www.example", A) => yes(vec![a("www.example", "203.0.113.1")]),
        ("www.example", AAAA) => yes(vec![aaaa("www.example", "2001:db8::1")]),
        ("alias.example", A) => yes(vec![
            cname("alias.example", "b.cdn.example"),
            cname("b.cdn.example", "c.cdn.example"),
            a("c.cdn.example", "203.0.113.3"),
        ]),
        ("half.example", A) => yes(vec![cname("half.example", "rest.example")]),
        ("rest.example", A) => yes(vec![a("rest.example", "203.0.113.4")]),
        ("loop.example", A) => yes(vec![
            cname("loop.example", "loop2.example"),
            cname("loop2.example", "loop.example"),
        ]),
        ("home.example", A) => yes(vec![a("home.example", "192.168.1.1")]),
        ("home.example", AAAA) => yes(vec![aaaa("home.example", "fd00::1")]),
        ("mapped.example", AAAA) => yes(vec![aaaa("mapped.example", "::ffff:169.254.169.254")]),
        ("nat64.example", AAAA) => yes(vec![aaaa("nat64.example", "64:ff9b::a9fe:a9fe")]),
        ("mixed.example", A) => yes(vec![
            a("mixed.example", "10.0.0.1"),
            a("mixed.example", "203.0.113.5"),
            a("mixed.example", "169.254.169.254"),
        ]),
        ("tohome.example", A) => {
            yes(vec![cname("tohome.example", "home.example"), a("home.example", "127.0.0.1")])
        }
        ("toinside.example", 16) => yes(vec![
            cname("toinside.example", "key.corp.internal"),
            ("key.corp.internal", 16, 60, b"\x06secret".to_vec()),
        ]),
        ("todenied.example", A) => yes(vec![
            cname("todenied.example", "denied.example"),
            a("denied.example", "203.0.113.6"),
        ]),
        ("gone.example", _) => Say::Answer(3, vec![], vec![soa]),
        ("www.example" | "alias.example", CNAME) => Say::Answer(0, vec![], vec![soa]),
        ("www.example", 15) => yes(vec![
            ("www.example", 15, 60, b"\x00\x0a\x02mx\x07example\x00".to_vec()),
            a("mx.example", "203.0.113.9"),
        ]),
        ("www.example", 65) => yes(vec![(
            "www.example",
            65,
            60,
            b"\x00\x01\x00\x00\x01\x00\x03\x02h2\x00\x04\x00\x04\x0a\x00\x00\x01".to_vec(),
        )]),
        ("_http._tcp.www.example", 33) => Say::Answer(3, vec![], vec![soa]),
        ("7.113.0.203.in-addr.arpa", 12) => {
            yes(vec![("7.113.0.203.in-addr.arpa", 12, 60, b"\x03www\x07example\x00".to_vec())])
        }
        _ => Say::Answer(0, vec![], vec![soa]),
    }
}

#[tokio::test]
async fn none_refuses_at_once_and_asks_nobody() {
    let upstream = Upstream::start(world).await;
    let world = World::new("none", &[&upstream]);
    for kind in [A, AAAA, 16, 65, 12] {
        assert_eq!(world.ask("www.example", kind).await.rcode, NO_SUCH_NAME, "{kind}");
    }
    assert_eq!(upstream.names(), [""; 0]);
    let denials = world.gate.denials();
    let last = denials.last().expect("a denial");
    assert_eq!(last.name.as_deref(), Some("www.example"));
    assert_eq!((last.protocol, last.port), (Protocol::Dns, 53));
    assert_eq!(world.gate.counters().dns_queries, 5);
    assert_eq!(world.gate.counters().denied_total, 5);
}

#[tokio::test]
async fn open_resolves_what_is_not_denied() {
    let upstream = Upstream::start(world).await;
    let world = World::new("open;deny:*.bad.example,denied.example", &[&upstream]);
    assert_eq!(world.ask("www.example", A).await.addresses(), [ip("203.0.113.1")]);
    assert_eq!(world.ask("WWW.Example", A).await.addresses(), [ip("203.0.113.1")]);
    assert_eq!(world.ask("www.example", AAAA).await.addresses(), [ip("2001:db8::1")]);
    for name in ["x.bad.example", "denied.example", "DENIED.example"] {
        assert_eq!(world.ask(name, A).await.rcode, NO_SUCH_NAME, "{name}");
    }
    // Also as the end of an alias of somebody else's.
    assert_eq!(world.ask("todenied.example", A).await.rcode, NO_SUCH_NAME);
    assert!(
        !upstream.names().iter().any(
            |name| name.to_lowercase().contains("denied.example") && name != "todenied.example"
        )
    );
}

#[tokio::test]
async fn allow_resolves_listed_names_only() {
    let upstream = Upstream::start(world).await;
    let world = World::new("allow:www.example,*.cdn.example,alias.example:443", &[&upstream]);
    assert_eq!(world.ask("www.example", A).await.addresses(), [ip("203.0.113.1")]);
    // Its aliases need not be listed, the end of them is told with them.
    let alias = world.ask("alias.example", A).await;
    assert_eq!(alias.addresses(), [ip("203.0.113.3")]);
    assert_eq!(alias.records.len(), 3);
    assert_eq!(world.ask("b.cdn.example", A).await.rcode, 0);
    for name in ["example", "x.www.example", "ww.example", "other.example", "cdn.example"] {
        assert_eq!(world.ask(name, A).await.rcode, NO_SUCH_NAME, "{name}");
    }
    assert_eq!(upstream.names(), ["www.example", "alias.example", "b.cdn.example"]);
    // Records of a service are below the name of their host.
    assert_eq!(world.ask("_http._tcp.www.example", 33).await.rcode, 3);
    assert_eq!(world.ask("_http._tcp.www.example", A).await.rcode, NO_SUCH_NAME);
    assert_eq!(world.ask("_a._b._c.www.example", 16).await.rcode, NO_SUCH_NAME);
}

#[tokio::test]
async fn a_policy_holds_from_the_next_question() {
    let upstream = Upstream::start(world).await;
    let world = World::new("none", &[&upstream]);
    assert_eq!(world.ask("www.example", A).await.rcode, NO_SUCH_NAME);
    world.gate.set_policies(policies("open")).expect("set");
    assert_eq!(world.ask("www.example", A).await.rcode, 0);
    world.gate.set_policies(policies("none")).expect("set");
    assert_eq!(world.ask("www.example", A).await.rcode, NO_SUCH_NAME);
}

#[tokio::test]
async fn addresses_that_the_gate_would_refuse_are_not_told() {
    let upstream = Upstream::start(world).await;
    // No rule opens them.
    for policy in ["open", "allow:*.example,0.0.0.0/0,[::]/0"] {
        let world = World::new(policy, &[&upstream]);
        for (name, kind) in [
            ("home.example", A),
            ("home.example", AAAA),
            ("mapped.example", AAAA),
            ("nat64.example", AAAA),
            ("tohome.example", A),
        ] {
            let reply = world.ask(name, kind).await;
            // The name is there, with nothing to tell: it may have an address of the other family.
            assert_eq!((reply.rcode, reply.records.len()), (0, 0), "{name}");
            assert!(reply.says("always refused"), "{name}: {reply:?}");
            let denials = world.gate.denials();
            let last = denials.last().expect("a denial");
            assert_eq!(last.name.as_deref(), Some(name));
            assert!(last.rule.starts_with("always refused: "), "{name}: {}", last.rule);
            // Which address of which network it is, nobody inside is told, and no log says.
            assert_eq!(last.address, None, "{name}");
            for part in ["192.168", "fd00", "169.254", "a9fe", "127.0"] {
                assert!(!reply.says(part) && !last.rule.contains(part), "{name}: {reply:?}");
            }
        }
        assert_eq!(world.ask("mixed.example", A).await.addresses(), [ip("203.0.113.5")]);
    }
}

/// Of what a policy of their own refuses they may know which address it is; of what the service does,
/// not.
#[tokio::test]
async fn an_address_that_a_policy_refuses_is_said_to_whom_the_policy_is_of() {
    let upstream = Upstream::start(world).await;
    let own = World::new("open;deny:203.0.113.0/24", &[&upstream]);
    let service = World::denying("203.0.113.0/24", "open", &[&upstream]);
    for (world, address) in [(own, Some(ip("203.0.113.1"))), (service, None)] {
        let reply = world.ask("www.example", A).await;
        assert_eq!((reply.rcode, reply.records.len()), (0, 0));
        assert!(reply.says("deny 203.0.113.0/24"), "{reply:?}");
        assert_eq!(reply.says("203.0.113.1"), address.is_some(), "{reply:?}");
        let denials = world.gate.denials();
        assert_eq!(denials.last().expect("a denial").address, address);
    }
}

#[tokio::test]
async fn aliases_are_followed_by_the_gate() {
    let upstream = Upstream::start(world).await;
    let world = World::new("allow:half.example,loop.example", &[&upstream]);
    let reply = world.ask("half.example", A).await;
    assert_eq!(reply.addresses(), [ip("203.0.113.4")]);
    assert_eq!(world.ask("loop.example", A).await.rcode, 2);
    assert_eq!(upstream.names(), ["half.example", "rest.example", "loop.example"]);
}

#[tokio::test]
async fn names_of_the_hosts_own_network_are_not_asked_for() {
    let upstream = Upstream::start(world).await;
    let world = World::new("open", &[&upstream]);
    for name in [
        "router",
        "metadata.google.internal",
        "printer.local",
        "x.localhost",
        "192.168.0.1",
        "0251.0376.0251.0376",
        "4.3.2.10.in-addr.arpa",
        "254.169.254.169.in-addr.arpa",
        "168.192.in-addr.arpa",
        "home.arpa",
    ] {
        for kind in [A, 12, 6] {
            assert_eq!(world.ask(name, kind).await.rcode, NO_SUCH_NAME, "{name}");
        }
    }
    assert_eq!(upstream.names(), [""; 0]);
    // Nor told, where somebody's alias leads there.
    assert_eq!(world.ask("toinside.example", 16).await.rcode, NO_SUCH_NAME);
}

#[tokio::test]
async fn other_records_pass_without_addresses() {
    let upstream = Upstream::start(world).await;
    let world = World::new("open", &[&upstream]);
    let mail = world.ask("www.example", 15).await;
    assert_eq!(mail.records, [(15, b"\x00\x0a\x02mx\x07example\x00".to_vec())]);
    let https = world.ask("www.example", 65).await;
    assert_eq!(https.records, [(65, b"\x00\x01\x00\x00\x01\x00\x03\x02h2".to_vec())]);
    let back = world.ask("7.113.0.203.in-addr.arpa", 12).await;
    assert_eq!(back.records, [(12, b"\x03www\x07example\x00".to_vec())]);
    for kind in [255, 252, 251, 250, 249, 41, 0, 65535] {
        assert_eq!(world.ask("www.example", kind).await.rcode, 5, "{kind}");
    }
    // What is not there is told with how long that holds.
    let gone = world.ask("gone.example", A).await;
    assert_eq!((gone.rcode, gone.records.len(), gone.message[9]), (3, 0, 1));
    let empty = world.ask("www.example", CNAME).await;
    assert_eq!((empty.rcode, empty.records.len(), empty.message[9]), (0, 0, 1));
}

#[tokio::test]
async fn a_refusal_says_why() {
    let upstream = Upstream::start(world).await;
    let world = World::new("allow:www.example", &[&upstream]);
    let reply = world.ask("other.example", A).await;
    let rule = world.gate.denials().last().expect("a denial").rule.clone();
    assert!(!rule.is_empty());
    assert!(reply.says(&rule), "{rule}: {:?}", String::from_utf8_lossy(&reply.message));
    // No time for which that holds: nobody may remember it.
    assert_eq!((reply.rcode, reply.message[9]), (NO_SUCH_NAME, 0));
}
