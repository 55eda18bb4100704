//! Faults of the field.

use super::{Bed, Shown};
use crate::common::{Home, Value, as_root, as_rootless, json};

as_root!(
    case_41_a_port_without_a_server_says_so_and_works_as_soon_as_there_is_one,
    case_42_servers_at_every_loopback_address_are_reached,
    case_44_no_credential_and_no_hop_reaches_the_program,
    case_69_ports_of_others_look_like_none,
);
as_rootless!(
    case_41_a_port_without_a_server_says_so_and_works_as_soon_as_there_is_one,
    case_42_servers_at_every_loopback_address_are_reached,
);

fn case_41_a_port_without_a_server_says_so_and_works_as_soon_as_there_is_one(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    let first = bed.public(8080);
    assert_eq!(bed.public(8080).host, first.host);
    assert_eq!(first.host, format!("8080-{}.localhost:{}", bed.digits(), serve.address.port()));
    let nothing = |shown: &Shown| {
        let plain = shown.get("/");
        assert_eq!(plain.status, 502, "{plain:?}");
        assert!(plain.body.contains("Nothing listens on port 8080"), "{plain:?}");
        assert!(!plain.body.contains('<'), "{plain:?}");
        let page = shown.ask("GET", "/", &[("accept", "text/html,*/*")]);
        assert_eq!((page.status, &*page.headers["cache-control"]), (502, "no-store"));
        assert!(page.body.contains("http-equiv=\"refresh\""), "{page:?}");
    };
    nothing(&first);
    bed.start(&["8080@127.0.0.1"]);
    let served = first.get("/x?y=1");
    assert_eq!((served.status, &*served.body), (200, "hello GET /x?y=1"));
    bed.stop();
    nothing(&first);
    bed.start(&["8080@127.0.0.1"]);
    assert_eq!(first.get("/").status, 200);
    serve.end();
}

fn case_42_servers_at_every_loopback_address_are_reached(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    let places = ["3000@127.0.0.1", "3001@::1", "3002@0.0.0.0", "3003@::"];
    bed.start(&places);
    for port in 3000..=3003 {
        let served = bed.public(port).get("/");
        assert_eq!((served.status, &*served.body), (200, "hello GET /"), "{port}");
    }
    serve.end();
}

fn case_44_no_credential_and_no_hop_reaches_the_program(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let (token, key) = (shown.token(), serve.key.clone().expect("a key"));
    let bearer = format!("Bearer {key}");
    let cookie = format!("theirs=1; holm-preview={token}; mine={token}; also=2");
    let seen = shown.seen(
        "/headers?a=b",
        &[
            ("x-holm-preview-token", token),
            ("authorization", &bearer),
            ("x-api-key", &key),
            ("x-any-name", &key),
            ("x-other-name", token),
            ("cookie", &cookie),
            ("connection", "X-Foo"),
            ("x-foo", "1"),
            ("proxy-authorization", "Basic eDp5"),
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-own", "kept"),
        ],
    );
    let all = format!("{seen:?}");
    for secret in [token, &key, "holm", "x-foo", "10.0.0.1", "proxy-authorization"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    let one = |name: &str| {
        let mut values = seen.iter().filter(|(key, _)| key == name).map(|(_, value)| &**value);
        let value = values.next().unwrap_or_else(|| panic!("{name}: {all}")).to_owned();
        assert_eq!(values.next(), None, "{name} once: {all}");
        value
    };
    assert_eq!(one("host"), shown.host);
    assert_eq!(one("x-forwarded-host"), shown.host);
    assert_eq!(one("x-forwarded-proto"), "http");
    assert_eq!(one("x-forwarded-for"), "127.0.0.1");
    assert_eq!(one("cookie"), "theirs=1; also=2");
    assert_eq!(one("x-own"), "kept");
    // An application's own login passes.
    let own = [("x-holm-preview-token", token), ("authorization", "Bearer theirs")];
    let seen = shown.seen("/headers", &own);
    assert!(seen.contains(&("authorization".to_owned(), "Bearer theirs".to_owned())), "{seen:?}");
    // A key in the address goes nowhere.
    let refused = shown.ask("GET", &format!("/?k={key}"), &own[..1]);
    assert_eq!(refused.status, 400, "{refused:?}");
    // Nor does a token for previews, under whichever name and for whichever port; what an application
    // has itself goes on.
    let other = bed.expose(&json!({"port": 8081}));
    let link = other.link();
    let of_link = link.split('=').nth(1).expect("a token");
    let escaped = token.replace('A', "%41");
    for query in [
        format!("token={token}"),
        format!("a=1&x={}&b", other.token()),
        format!("holm%5Ftoken={token}"),
        format!("next=%2F%3Fholm_token%3D{of_link}"),
        format!("holm_token=x&y={escaped}"),
    ] {
        let refused = shown.ask("GET", &format!("/headers?{query}"), &own[..1]);
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
    }
    let passed = shown.ask("GET", "/headers?token=AQAAAA&t=QUJD", &own[..1]);
    assert_eq!(passed.json()["line"][1], "/headers?token=AQAAAA&t=QUJD");
    assert!(!serve.stderr().contains(token), "the log has no token");
    serve.end();
}

fn case_69_ports_of_others_look_like_none(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.public(8080);
    let other = serve.with_key(home.tenant("other"));
    let never = "/v1/sandboxes/sbx_0123456789abcdef01";
    let theirs = format!("/v1/sandboxes/{}", bed.id);
    for (method, below, body) in [
        ("POST", "/ports", json!({"port": 8080})),
        ("GET", "/ports", Value::Null),
        ("DELETE", "/ports?port=8080", Value::Null),
    ] {
        let plain = |answer: &crate::common::Answer, id: &str| {
            let mut body = answer.json();
            body["error"]["request_id"] = Value::Null;
            (answer.status, body.to_string().replace(id, "ID"))
        };
        let foreign = other.rest(method, &format!("{theirs}{below}"), &body);
        let missing = other.rest(method, &format!("{never}{below}"), &body);
        assert_eq!(foreign.status, 404, "{method} {foreign:?}");
        assert_eq!(plain(&foreign, &bed.id), plain(&missing, "sbx_0123456789abcdef01"));
    }
    let session = other.session();
    let tool = other.call(&session, "expose_port", json!({"sandbox_id": bed.id, "port": 8080}));
    assert_eq!(tool.code(), "not_found");
    assert_eq!(bed.ask("GET", "/ports", &Value::Null).json()["ports"][0]["port"], 8080);
    serve.end();
}
