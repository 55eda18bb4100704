//! Questions and answers: policy, address, names, claim, and what must come out.

use super::*;

fn names(text: &str) -> Vec<HostName> {
    let name = |text: &str| text.parse().expect("a name");
    text.split(' ').filter(|name| !name.is_empty()).map(name).collect()
}

fn compiled(own: &str, ceiling: Option<&str>, service: &[&str]) -> Compiled {
    let policy = |text: &str| text.parse::<EgressPolicy>().expect("a policy");
    let policies = Policies { own: policy(own), ceiling: ceiling.map(policy) };
    let service: Vec<Rule> = service.iter().map(|rule| rule.parse().expect("a rule")).collect();
    Compiled::new(&policies, &service)
}

/// What came out, in a word: `open`, `name …`, or the refusal; `?` where a claim can change it.
fn asked(compiled: &Compiled, address: &str, port: u16, known: &str, claim: &str) -> String {
    let (known, claim) = (names(known), names(claim));
    let address = address.parse().expect("an address");
    let question = Question { address, port, names: &known, claim: claim.first() };
    let (text, wants_claim) = match compiled.judge(&question) {
        Ok(Verdict { by_name: Some(name), wants_claim }) => (format!("name {name}"), wants_claim),
        Ok(Verdict { by_name: None, wants_claim }) => ("open".to_owned(), wants_claim),
        Err(Refusal { rule, wants_claim }) => (rule, wants_claim),
    };
    if wants_claim { text + " ?" } else { text }
}

/// Policy, address and port, known names, claimed name, what must come out.
type Case = (&'static str, &'static str, u16, &'static str, &'static str, &'static str);

#[test]
fn policies_answer() {
    let unlisted = "not in the allow list";
    let cases: &[Case] = &[
        ("none", "203.0.113.7", 443, "", "", "the network is off (`none`)"),
        ("open", "203.0.113.7", 443, "", "", "open"),
        ("open", "2001:db8::7", 1, "a.example", "b.example", "open"),
        // Deny by address.
        ("open;deny:203.0.113.0/24:443", "203.0.113.7", 443, "", "", "deny 203.0.113.0/24:443"),
        ("open;deny:203.0.113.0/24:443", "203.0.113.7", 80, "", "", "open"),
        ("open;deny:203.0.113.0/24", "203.0.112.7", 443, "", "", "open"),
        // Deny by name: all names of the address count until the client says which it wants.
        ("open;deny:bad.example", "203.0.113.7", 443, "", "", "open ?"),
        ("open;deny:bad.example:25", "203.0.113.7", 443, "", "", "open"),
        ("open;deny:bad.example:25", "203.0.113.7", 25, "bad.example", "", "deny bad.example:25"),
        ("open;deny:bad.example", "203.0.113.7", 443, "good.example", "", "open ?"),
        ("open;deny:bad.example", "203.0.113.7", 443, "good.example", "good.example", "open"),
        ("open;deny:bad.example", "203.0.113.7", 443, "", "bad.example", "deny bad.example"),
        (
            "open;deny:bad.example",
            "203.0.113.7",
            443,
            "good.example",
            "bad.example",
            "deny bad.example",
        ),
        (
            "open;deny:bad.example",
            "203.0.113.7",
            443,
            "bad.example good.example",
            "",
            "deny bad.example ?",
        ),
        (
            "open;deny:bad.example",
            "203.0.113.7",
            443,
            "bad.example good.example",
            "good.example",
            "open",
        ),
        (
            "open;deny:bad.example",
            "203.0.113.7",
            443,
            "bad.example good.example",
            "x.example",
            "deny bad.example",
        ),
        // Allow by address.
        ("allow:203.0.113.0/24:5432-5440", "203.0.113.7", 5440, "", "", "open"),
        ("allow:203.0.113.0/24:5432-5440", "203.0.113.7", 5441, "", "", unlisted),
        ("allow:203.0.113.0/24", "203.0.113.7", 443, "", "anything.example", "open"),
        ("allow:[2001:db8::]/32", "2001:db9::", 443, "", "", unlisted),
        ("allow:", "203.0.113.7", 443, "a.example", "a.example", unlisted),
        // Allow by name: only for addresses that the name was resolved to here.
        ("allow:a.example", "203.0.113.7", 443, "", "", unlisted),
        ("allow:a.example", "203.0.113.7", 443, "a.example", "", "name a.example ?"),
        ("allow:a.example", "203.0.113.7", 443, "a.example", "a.example", "name a.example"),
        ("allow:a.example:443", "203.0.113.7", 80, "a.example", "", unlisted),
        (
            "allow:a.example",
            "203.0.113.7",
            443,
            "x.example",
            "a.example",
            "the client asks for a.example, which this address is not known for",
        ),
        (
            "allow:a.example",
            "203.0.113.7",
            443,
            "a.example",
            "x.example",
            "the client asks for x.example, which this address is not known for",
        ),
        ("allow:a.example", "203.0.113.7", 443, "a.example x.example", "x.example", unlisted),
        ("allow:*.a.example", "203.0.113.7", 443, "b.a.example", "", "name b.a.example ?"),
        ("allow:*.a.example", "203.0.113.7", 443, "a.example", "", unlisted),
        // Deny on top of allow.
        (
            "allow:*.a.example;deny:b.a.example",
            "203.0.113.7",
            443,
            "b.a.example",
            "b.a.example",
            "deny b.a.example",
        ),
        (
            "allow:*.a.example;deny:203.0.113.7",
            "203.0.113.7",
            443,
            "b.a.example",
            "",
            "deny 203.0.113.7",
        ),
        ("allow:a.example,203.0.113.7", "203.0.113.7", 443, "a.example", "x.example", "open"),
    ];
    for (policy, address, port, known, claim, expected) in cases {
        let found = asked(&compiled(policy, None, &[]), address, *port, known, claim);
        assert_eq!(found, *expected, "{policy}: {address} {port} [{known}] {claim}");
    }
}

#[test]
fn all_layers_must_permit() {
    let check = |own: &str, ceiling: &str, service: &[&str], known: &str, expected: &str| {
        let compiled = compiled(own, Some(ceiling), service);
        let found = asked(&compiled, "203.0.113.7", 443, known, "");
        assert_eq!(found, expected, "{own} under {ceiling} and {service:?}: [{known}]");
    };
    check("open", "open", &[], "", "open");
    check("open", "none", &[], "", "account limit: the network is off (`none`)");
    check("none", "open", &[], "", "the network is off (`none`)");
    check("open", "allow:a.example", &[], "a.example", "name a.example ?");
    check("open", "allow:a.example", &[], "b.example", "account limit: not in the allow list");
    check(
        "allow:a.example",
        "open;deny:a.example",
        &[],
        "a.example",
        "account limit: deny a.example",
    );
    check("allow:a.example", "allow:203.0.113.0/24", &[], "a.example", "name a.example ?");
    // One name must satisfy both, not one name each.
    check(
        "allow:a.example",
        "allow:b.example",
        &[],
        "a.example b.example",
        "not in the allow list",
    );
    check("allow:*.example", "allow:b.example", &[], "a.example b.example", "name b.example ?");
    check("open", "open", &["203.0.113.0/24"], "", "service: deny 203.0.113.0/24");
    check(
        "allow:203.0.113.7",
        "open",
        &["*.corp.example"],
        "a.corp.example",
        "service: deny *.corp.example",
    );
}

#[test]
fn names_are_resolved_only_where_they_help() {
    let check = |policy: &str, name: &str, expected: &str| {
        let found = compiled(policy, None, &["*.corp.example"]).resolve(&names(name)[0]);
        let found = found.map_or_else(|refusal| refusal.rule, |()| "yes".to_owned());
        assert_eq!(found, expected, "{policy}: {name}");
    };
    check("none", "a.example", "the network is off (`none`)");
    check("open", "a.example", "yes");
    check("open", "a.corp.example", "service: deny *.corp.example");
    check("open;deny:*.example", "a.example", "deny *.example");
    check("open;deny:*.example:25", "a.example", "yes");
    check("allow:a.example:443", "a.example", "yes");
    check("allow:a.example", "b.example", "not in the allow list");
    check("allow:0.0.0.0/0", "a.example", "not in the allow list");
    check("allow:*.example;deny:b.example", "b.example", "deny b.example");
}
