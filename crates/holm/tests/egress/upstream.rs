//! A host that reaches the world only through a forward proxy.

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;

on_beds!(Root, root: the_hosts_proxy_is_used_and_judges_nothing_for_us, where_the_proxy_refuses_addresses, a_proxy_that_is_away);

const PROXY: (&str, &str) = ("HTTPS_PROXY", "http://user:pass%40word@203.0.113.128:3128");

fn only_the_proxy(bed: &Bed) {
    for flow in bed.sent() {
        assert!([PROXY4.into(), DNS4.into(), DNS6.into()].contains(&flow.to.ip()), "{flow:?}");
    }
}

fn targets(bed: &Bed) -> Vec<String> {
    let heads = bed.internet.proxy.heads();
    let target = |head: &String| head.split(' ').nth(1).unwrap_or_default().to_owned();
    heads.iter().map(target).collect()
}

fn the_hosts_proxy_is_used_and_judges_nothing_for_us(home: &Home, bed: &Bed) {
    bed.internet.dns.name("ten.bed.test", &[Data::A([10, 0, 0, 7].into())]);
    let mcp = home.mcp_with(&[PROXY]);
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[
        ("tcp 203.0.113.10 80", "reached"),
        ("tcp 2001:db8:20::20 8080", "reached"),
        ("tls site.bed.test 443 site.bed.test", "reached"),
        ("read 203.0.113.20 2525", "reached"),
        ("tcp 169.254.169.254 80", "refused"),
        ("tcp 10.1.2.3 80", "refused"),
        ("tcp 198.51.100.1 80", "refused"),
    ]);
    let said = inside.probe("tcp ten.bed.test 80");
    assert!(["refused", "noname"].contains(&said.as_str()), "{said}");
    // It is asked for addresses that were checked, never for a name that it would look up itself.
    let targets = targets(bed);
    for target in ["203.0.113.10:80", "[2001:db8:20::20]:8080", "203.0.113.20:2525"] {
        assert!(targets.iter().any(|asked| asked == target), "{target}: {targets:?}");
    }
    assert!(
        targets.iter().all(|target| target.parse::<std::net::SocketAddr>().is_ok()),
        "{targets:?}"
    );
    assert!(
        !targets.iter().any(|target| target.starts_with("10.") || target.starts_with("169.254")),
        "{targets:?}"
    );
    for head in bed.internet.proxy.heads() {
        let basic =
            head.lines().find(|line| line.to_ascii_lowercase().starts_with("proxy-authorization:"));
        assert!(basic.is_some_and(|line| line.contains("Basic dXNlcjpwYXNzQHdvcmQ=")), "{head}");
    }
    only_the_proxy(bed);
    mcp.end(home);
}

/// A proxy that lets only names through: of sandboxes that may reach all addresses nothing, of those
/// with a list the names in it.
fn where_the_proxy_refuses_addresses(home: &Home, bed: &Bed) {
    bed.internet.proxy.refuse(|target| target.parse::<std::net::SocketAddr>().is_ok());
    let mcp = home.mcp_with(&[PROXY]);
    let open = Inside::new(&mcp, json!("open"));
    open.check(&[("tcp 203.0.113.10 80", "refused"), ("read site.bed.test 2525", "refused")]);
    let named = Inside::new(&mcp, json!({"mode": "allow", "allow": ["site.bed.test"]}));
    named.check(&[
        ("tls site.bed.test 443 site.bed.test", "reached"),
        ("http site.bed.test 80 site.bed.test", "reached"),
        ("http site.bed.test 80 other.bed.test", "refused"),
        ("tcp 169.254.169.254 80", "refused"),
    ]);
    only_the_proxy(bed);
    mcp.end(home);
}

fn a_proxy_that_is_away(home: &Home, bed: &Bed) {
    let mcp = home.mcp_with(&[("HTTPS_PROXY", "http://203.0.113.128:3129")]);
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[
        ("tcp 203.0.113.10 80", "refused"),
        ("tls site.bed.test 443 site.bed.test", "refused"),
    ]);
    assert_eq!(bed.internet.seen.accepted(), 0, "never past it");
    mcp.end(home);
}
