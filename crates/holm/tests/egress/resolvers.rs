//! How resolvers of other kinds than the usual one take what the gate refuses.

use crate::bed::*;
use crate::common::*;

on_beds!(Root, root: case_49_a_resolver_of_musl_fails_at_once);
on_beds!(Rootless, rootless: case_49_a_resolver_of_musl_fails_at_once);

/// Says of each name whether it has an address, has none, or should be tried again: what musl says
/// when it has waited for an answer and has none that it takes for one.
const LOOK_UP: &str = r#"
#include <netdb.h>
#include <stdio.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++) {
        struct addrinfo *found;
        int error = getaddrinfo(names[i], "80", 0, &found);
        puts(!error ? "found" : error == EAI_AGAIN ? "again" : "none");
    }
}
"#;

fn case_49_a_resolver_of_musl_fails_at_once(home: &Home, bed: &Bed) {
    let Some(program) = musl_program(LOOK_UP) else {
        println!("SKIP what needs musl-tools");
        return;
    };
    let dns = &bed.internet.dns;
    dns.name("loop.bed.test", &[Data::A([127, 0, 0, 1].into())]);
    let mcp = home.mcp();
    let look_up = |sandbox: &str, names: &str| {
        mcp.write_program(sandbox, "look-up", &program);
        mcp.sh(sandbox, &format!("./look-up {names}")).good().replace('\n', " ")
    };
    let listed = json!({"mode": "allow", "allow": ["site.bed.test", "loop.bed.test"]});
    let some = mcp.create_with(json!({"network": listed}));
    // Permitted; not listed; of some network; permitted, with an address that no policy opens.
    let names = "site.bed.test other.bed.test router x.internal loop.bed.test";
    assert_eq!(look_up(&some, names), "found none none none none");
    assert_eq!(dns.count("other.bed.test"), 0);
    let off = mcp.create_with(json!({"network": "none"}));
    assert_eq!(look_up(&off, names), "none none none none none");
    // A search list with what is refused does not hide what is permitted.
    if home.users().contains(&"root") {
        let lists = "printf 'search corp.test\\noptions ndots:5\\n' >>/etc/resolv.conf";
        mcp.sh_root(&some, lists).good();
        assert_eq!(look_up(&some, "site.bed.test other.bed.test"), "found none");
        assert_eq!(dns.count("site.bed.test.corp.test"), 0);
    }
    mcp.end(home);
}
