//! Allow lists, and ways around them.

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;

on_beds!(Root, root: case_51_an_allowed_name_and_nothing_else, case_51_names_are_decided_by_what_they_resolve_to,
    servers_that_speak_first, every_request_of_a_kept_connection, networks_and_ports, a_suffix_and_a_denial,
    policies_that_are_none);
on_beds!(Rootless, rootless: case_51_an_allowed_name_and_nothing_else, every_request_of_a_kept_connection);

fn allow(names: &[&str]) -> Value {
    json!({"mode": "allow", "allow": names})
}

fn case_51_an_allowed_name_and_nothing_else(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, allow(&["site.bed.test"]));
    inside.check(&[
        ("tls site.bed.test 443 site.bed.test", "reached"),
        ("http site.bed.test 80 site.bed.test", "reached"),
        // By its address, of either family, with the right name.
        ("tls 203.0.113.10 443 site.bed.test", "reached"),
        ("tls 2001:db8:10::10 443 site.bed.test", "reached"),
        // The allowed name with another address.
        ("tls 203.0.113.20 443 site.bed.test", "refused"),
        ("http 203.0.113.20 80 site.bed.test", "refused"),
        ("tls 2001:db8:20::20 443 site.bed.test", "refused"),
        // Its address with another name, with none, and with two that disagree.
        ("tls 203.0.113.10 443 other.bed.test", "refused"),
        ("http 203.0.113.10 80 other.bed.test", "refused"),
        // Others, by name and address.
        ("name other.bed.test", "noname"),
        ("tcp 203.0.113.20 80", "refused"),
        ("tcp 2001:db8:20::20 80", "refused"),
        ("tls 203.0.113.20 443 other.bed.test", "refused"),
        ("udp 203.0.113.10 443", "refused"),
        ("udp 2001:db8:10::10 443", "refused"),
        ("tcp 169.254.169.254 80", "refused"),
    ]);
    let to: Vec<_> = bed.internet.seen.connections().iter().map(|one| one.to.ip()).collect();
    assert!(to.iter().all(|ip| [SITE4.into(), SITE6.into()].contains(ip)), "{to:?}");
    for request in bed.internet.seen.requests() {
        assert_eq!(request.header("host"), Some("site.bed.test"), "{request:?}");
    }
    assert!(
        bed.internet
            .seen
            .connections()
            .iter()
            .all(|one| one.sni.as_deref() != Some("other.bed.test"))
    );
    assert_eq!(
        bed.internet.dns.count("other.bed.test"),
        0,
        "names that are not listed are not resolved"
    );
    // An agent learns why.
    let denials = inside.denials();
    let told = |port: u64, address: &str| {
        denials.iter().any(|denial| {
            denial["port"] == port
                && denial["address"] == address
                && denial["rule"].as_str().is_some_and(|rule| !rule.is_empty())
        })
    };
    assert!(told(443, "203.0.113.20") && told(80, "203.0.113.10"), "{denials:#?}");
    assert!(
        denials
            .iter()
            .any(|denial| denial["name"] == "other.bed.test" && denial["protocol"] == "dns"),
        "{denials:#?}"
    );
    mcp.end(home);
}

/// A listed name that its owner leads to a denied or private place.
fn case_51_names_are_decided_by_what_they_resolve_to(home: &Home, bed: &Bed) {
    let dns = &bed.internet.dns;
    dns.name("inward.bed.test", &[Data::A([10, 0, 0, 9].into())]);
    dns.name("alias.bed.test", &[Data::Cname("other.bed.test".to_owned()), Data::A(OTHER4)]);
    let mcp = home.mcp();
    let policy = json!({"mode": "allow", "allow": ["inward.bed.test", "alias.bed.test"], "deny": ["other.bed.test", "203.0.113.20"]});
    let inside = Inside::new(&mcp, policy);
    for probe in [
        "http inward.bed.test 80 inward.bed.test",
        "http alias.bed.test 80 alias.bed.test",
        "http 203.0.113.20 80 alias.bed.test",
        "tls 203.0.113.20 443 alias.bed.test",
    ] {
        let said = inside.probe(probe);
        assert!(["refused", "noname"].contains(&said.as_str()), "{probe}: {said}");
    }
    assert_eq!(bed.internet.seen.accepted(), 0, "{:?}", bed.internet.seen.connections());
    mcp.end(home);
}

/// Nobody says a name there, so the sandbox's own questions decide.
fn servers_that_speak_first(home: &Home, _bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, allow(&["site.bed.test"]));
    inside.check(&[
        ("read 203.0.113.10 2525", "refused"),
        ("name site.bed.test", "2001:db8:10::10 203.0.113.10"),
        ("read 203.0.113.10 2525", "reached"),
        ("read 2001:db8:10::10 2525", "reached"),
        ("read 203.0.113.20 2525", "refused"),
    ]);
    // Another sandbox has not asked.
    let other = Inside::new(&mcp, allow(&["site.bed.test"]));
    other.check(&[("read 203.0.113.10 2525", "refused")]);
    mcp.end(home);
}

/// The first request is for an allowed name, a later one on the same connection for another.
fn every_request_of_a_kept_connection(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, allow(&["site.bed.test"]));
    inside.check(&[
        ("http site.bed.test 80 site.bed.test site.bed.test", "reached"),
        ("http site.bed.test 80 site.bed.test other.bed.test", "refused"),
    ]);
    let forms = [
        "GET http://other.bed.test/ HTTP/1.1\\r\\nHost: site.bed.test\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nHost: site.bed.test\\r\\nHost: other.bed.test\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nHost: other.bed.test\\r\\nHost: site.bed.test\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\n\\r\\n",
        "GET / HTTP/1.1\\nHost: other.bed.test\\n\\n",
        "GET / HTTP/1.1\\r\\nHost : other.bed.test\\r\\n\\r\\n",
        "GET / HTTP/1.1\\r\\nHost: site.bed.test\\r\\n Host: other.bed.test\\r\\n\\r\\n",
        "POST / HTTP/1.1\\r\\nHost: site.bed.test\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET / HTTP/1.1\\r\\nHost: other.bed.test\\r\\n\\r\\n",
        "CONNECT other.bed.test:80 HTTP/1.1\\r\\nHost: site.bed.test\\r\\n\\r\\n",
    ];
    for form in forms {
        let code = format!(
            "import socket\ns = socket.create_connection(('203.0.113.10', 80), 100)\ntry:\n  s.sendall(b'{form}')\n  s.recv(100)\nexcept TimeoutError: print('silent')\nexcept OSError: pass\n"
        );
        assert_eq!(inside.python(&code), "", "{form}");
    }
    for request in bed.internet.seen.requests() {
        let hosts: Vec<_> = request
            .headers
            .iter()
            .filter(|(name, _)| name.trim() == "host")
            .map(|(_, value)| value.as_str())
            .collect();
        // One that says no name is decided by the address, which was resolved for the allowed one.
        assert!(hosts.is_empty() || hosts == ["site.bed.test"], "{request:?}");
        assert!(!request.path.contains("other"), "{request:?}");
    }
    mcp.end(home);
}

fn networks_and_ports(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(
        &mcp,
        allow(&["203.0.113.0/28:8000-8080", "[2001:db8:20::]/48", "10.0.0.0/8", "169.254.169.254"]),
    );
    inside.check(&[
        ("tcp 203.0.113.10 8000", "reached"),
        ("tcp 203.0.113.10 8080", "reached"),
        ("tcp 203.0.113.10 80", "refused"),
        ("tcp 203.0.113.20 8000", "refused"),
        ("tcp 2001:db8:20::20 22", "reached"),
        ("read 2001:db8:20::99 2525", "reached"),
        ("tcp 2001:db8:10::10 80", "refused"),
        // No rule of a tenant opens these.
        ("tcp 10.0.0.1 80", "refused"),
        ("tcp 169.254.169.254 80", "refused"),
        ("name site.bed.test", "noname"),
    ]);
    assert_eq!(bed.internet.dns.asked(), []);
    mcp.end(home);
}

fn a_suffix_and_a_denial(home: &Home, bed: &Bed) {
    bed.internet.dns.name("deep.other.bed.test", &[Data::A(OTHER4)]);
    bed.internet.dns.name("xbed.test", &[Data::A(OTHER4)]);
    let mcp = home.mcp();
    let inside = Inside::new(
        &mcp,
        json!({"mode": "allow", "allow": ["*.bed.test:80"], "deny": ["*.other.bed.test"]}),
    );
    inside.check(&[
        ("http site.bed.test 80 site.bed.test", "reached"),
        ("http site.bed.test 80 SITE.Bed.Test", "reached"),
        ("http site.bed.test 8000 site.bed.test", "refused"),
        ("http deep.other.bed.test 80 deep.other.bed.test", "noname"),
        ("http xbed.test 80 xbed.test", "noname"),
    ]);
    inside.destroy();
    // The same on top of `open`.
    let inside =
        Inside::new(&mcp, json!({"mode": "open", "deny": ["site.bed.test", "203.0.113.20"]}));
    for probe in ["http site.bed.test 80 site.bed.test", "tcp 203.0.113.20 80"] {
        let said = inside.probe(probe);
        assert!(["refused", "noname"].contains(&said.as_str()), "{probe}: {said}");
    }
    inside.check(&[("tcp 2001:db8:20::20 80", "reached")]);
    mcp.end(home);
}

fn policies_that_are_none(home: &Home, _bed: &Bed) {
    let mcp = home.mcp();
    for wrong in [
        json!("opem"),
        json!({"mode": "shut"}),
        json!({"mode": "allow", "allow": ["*"]}),
        json!({"mode": "allow", "allow": ["a..b"]}),
        json!({"mode": "allow", "allow": ["1.2.3.4/33"]}),
        json!({"mode": "allow", "allow": ["x.test:0-1"]}),
        json!({"mode": "allow", "allow": ["x.test:9-1"]}),
        json!({"mode": "none", "allow": ["x.test"]}),
        json!({"mode": "open", "allov": []}),
        json!(["open"]),
        json!(5),
        json!({"mode": "allow", "allow": vec!["a.test"; 300]}),
    ] {
        let refused = mcp.call("create_sandbox", json!({"network": wrong}));
        assert_eq!(refused.code(), "invalid_argument", "{wrong}");
    }
    assert!(mcp.list().is_empty());
    mcp.end(home);
}
