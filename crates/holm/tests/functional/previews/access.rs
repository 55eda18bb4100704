//! Who may look, and which names are previews at all.

use std::io::Write as _;
use std::net::TcpStream;

use super::{Bed, Shown, open};
use crate::common::{Answer, Home, Value, as_root, as_rootless, json, receive};

as_root!(
    a_private_preview_opens_by_its_link_once_then_by_cookie,
    programs_send_a_token,
    pages_of_others_cannot_use_a_visitors_cookie,
    the_api_and_previews_share_no_name,
    names_that_are_no_preview_get_a_page,
    unexposing_ends_tokens_and_what_is_open,
    embedded_previews_have_a_listener_of_their_own,
    previews_may_have_a_listener_of_their_own,
);
as_rootless!(
    a_private_preview_opens_by_its_link_once_then_by_cookie,
    embedded_previews_have_a_listener_of_their_own,
);

fn cookie_of(opened: &Answer) -> String {
    assert_eq!(opened.status, 303, "{opened:?}");
    let cookie = &opened.headers["set-cookie"];
    assert!(cookie.ends_with("; HttpOnly; SameSite=Lax"), "{cookie}");
    assert!(!cookie.to_lowercase().contains("domain"), "{cookie}");
    cookie.split(';').next().expect("a pair").to_owned()
}

fn a_private_preview_opens_by_its_link_once_then_by_cookie(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    assert_eq!(shown.answer["public"], false);
    let closed = |answer: &Answer| {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(!answer.headers.contains_key("location"), "no way to log in: {answer:?}");
        assert!(!answer.body.contains("hello"), "{answer:?}");
    };
    closed(&shown.get("/"));
    closed(&shown.ask("GET", "/", &[("accept", "text/html")]));
    closed(&shown.ask("POST", &shown.link(), &[("content-length", "0")]));
    closed(&shown.get("/?holm_token=abc"));
    let opened = shown.get(&shown.link().replacen("/?", "//evil.example/a%20b?x=1&", 1));
    let to = format!("http://{}//evil.example/a%20b?x=1", shown.host);
    assert_eq!(opened.headers["location"], to);
    assert_eq!(opened.headers["referrer-policy"], "no-referrer");
    let cookie = cookie_of(&opened);
    closed(&shown.get(&shown.link()));
    let looked = shown.ask("GET", "/x", &[("cookie", &cookie)]);
    assert_eq!((looked.status, &*looked.body), (200, "hello GET /x"));
    assert_eq!(looked.headers["cache-control"], "private");
    // Who may look already is sent on by a used link too.
    let again = shown.ask("GET", &shown.link(), &[("cookie", &cookie)]);
    assert_eq!((again.status, again.headers.contains_key("set-cookie")), (303, false));
    // For this port only.
    let other = bed.expose(&json!({"port": 8081}));
    closed(&other.ask("GET", "/", &[("cookie", &cookie)]));
    closed(&other.get(&shown.link()));
    // Asked for again it gives another link to the same address.
    let next = bed.expose(&json!({"port": 8080}));
    assert_eq!((&next.host, next.link() == shown.link()), (&shown.host, false));
    cookie_of(&next.get(&next.link()));
    serve.end();
}

fn programs_send_a_token(home: &Home) {
    let text = "[previews]\naccess_life = '1s'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let by = |token: &str| shown.ask("GET", "/", &[("x-holm-preview-token", token)]).status;
    assert_eq!(by("x"), 401);
    let link = shown.link();
    assert_eq!(by(link.split('=').nth(1).expect("a token")), 401, "a link is no token");
    // It may take a moment longer to be refused, and never a moment less than it says.
    crate::common::until("it has ended", || (by(shown.token()) == 401).then_some(()));
    let next = bed.expose(&json!({"port": 8080}));
    assert_ne!(next.token(), shown.token());
    serve.end();
}

fn pages_of_others_cannot_use_a_visitors_cookie(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let cookie = cookie_of(&shown.get(&shown.link()));
    let own = format!("http://{}", shown.host);
    let sibling = format!("http://3000-{}", shown.host.split_once('-').expect("a name").1);
    let stranger = "http://8080-0123456789abcdef01.localhost:1";
    let check = |headers: &[(&str, &str)], want: u16| {
        let mut headers = headers.to_vec();
        headers.push(("cookie", &cookie));
        assert_eq!(shown.ask("GET", "/", &headers).status, want, "{headers:?}");
    };
    check(&[], 200);
    check(&[("origin", &own)], 200);
    check(&[("origin", &sibling)], 200);
    check(&[("origin", stranger)], 401);
    check(&[("origin", "http://localhost")], 401);
    check(&[("origin", "null")], 401);
    check(&[("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], 200);
    check(&[("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")], 200);
    check(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 200);
    check(&[("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")], 401);
    check(&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "websocket")], 401);
    serve.end();
}

fn the_api_and_previews_share_no_name(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let key = serve.key.clone().expect("a key");
    // What would be the API elsewhere is the program's here.
    for path in ["/v1/sandboxes", "/mcp", "/health", "/metrics"] {
        let answer = shown.ask("GET", path, &[("x-api-key", &key)]);
        assert_eq!(answer.body, format!("hello GET {path}"), "{path}");
    }
    // And its pages may not use the API.
    let origin = format!("http://{}", shown.host);
    let refused = serve.ask("GET", "/v1/sandboxes", &[("origin", &origin)], "");
    assert_eq!(refused.status, 403, "{refused:?}");
    // The name in the request line counts.
    let absolute = format!("http://{}/v1/sandboxes", shown.host);
    let answer = serve.ask("GET", &absolute, &[], "");
    assert_eq!(answer.body, "hello GET /v1/sandboxes");
    // There is no form by a path.
    let name = shown.host.split('.').next().expect("a label");
    let answer = serve.ask("GET", &format!("/{name}/"), &[], "");
    assert_eq!(answer.status, 404, "{answer:?}");
    serve.end();
}

fn names_that_are_no_preview_get_a_page(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1", "8081@127.0.0.1"]);
    let shown = bed.public(8080);
    let digits = bed.digits();
    let ask = |host: &str| {
        let headers =
            [("connection", "close"), ("x-api-key", serve.key.as_deref().expect("a key"))];
        receive(open(serve.address, host, "GET", "/v1/sandboxes", &headers))
    };
    // The case of letters and the port are nobody's concern.
    for good in
        [format!("8080-{digits}.localhost"), format!("8080-{}.LOCALHOST:1", digits.to_uppercase())]
    {
        assert_eq!(ask(&good).status, 200, "{good}");
    }
    let address = serve.address.port();
    for wrong in [
        format!("8081-{digits}.localhost:{address}"),
        "8080-0123456789abcdef01.localhost".to_owned(),
        format!("8080-{digits}.localhost."),
        format!("8080-{digits}.localhost.:{address}"),
        format!("8080-sbx_{digits}.localhost"),
        format!("08080-{digits}.localhost"),
        format!("0-{digits}.localhost"),
        format!("65536-{digits}.localhost"),
        format!("-1-{digits}.localhost"),
        format!("{digits}.localhost"),
        format!("a.8080-{digits}.localhost"),
        format!("22-{digits}.localhost"),
        "x.localhost".to_owned(),
    ] {
        let answer = ask(&wrong);
        assert_eq!(answer.status, 404, "{wrong}: {answer:?}");
        assert!(answer.body.starts_with("No such preview"), "{wrong}: {answer:?}");
    }
    // Where it is no good HTTP, or no name at all, it is nobody's either.
    let name = format!("8080-{digits}.localhost");
    for wrong in
        [format!("{name}:other"), format!("８{name}"), format!("{name}\r\nhost: localhost")]
    {
        let status = ask(&wrong).status;
        assert!(matches!(status, 400 | 404), "{wrong}: {status}");
    }
    assert_eq!(shown.get("/").status, 200);
    serve.end();
}

fn unexposing_ends_tokens_and_what_is_open(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let token = [("x-holm-preview-token", shown.token())];
    let mut stream = shown.open("GET", "/sse", &token);
    super::read_until(&mut stream, "data: 1");
    let unexposed = || bed.ask("DELETE", "/ports?port=8080", &Value::Null).json();
    assert_eq!(unexposed(), json!({"port": 8080, "already_unexposed": false}));
    assert_eq!(unexposed()["already_unexposed"], true);
    // It ends, and without the mark of a good end.
    assert!(!super::rest_of(stream).ends_with("0\r\n\r\n"));
    assert_eq!(shown.ask("GET", "/", &token).status, 404);
    assert_eq!(bed.ask("GET", "/ports", &Value::Null).json(), json!({"ports": []}));
    let next = bed.expose(&json!({"port": 8080}));
    assert_eq!(next.ask("GET", "/", &token).status, 401, "what was signed before is over");
    let next = [("x-holm-preview-token", next.token())];
    assert_eq!(shown.ask("GET", "/", &next).status, 200);
    serve.end();
}

fn embedded_previews_have_a_listener_of_their_own(home: &Home) {
    let mcp = home.mcp();
    let file = json!({"path": "program.py", "content": super::PROGRAM});
    mcp.call("write_file", file).ok();
    let exposed = mcp.call("expose_port", json!({"port": 8080}));
    let exposed = exposed.ok().clone();
    let host = exposed["url"].as_str().expect("a URL").trim_start_matches("http://");
    let port: u16 =
        host.trim_end_matches('/').rsplit(':').next().expect("a port").parse().expect("a number");
    let shown = Shown::of(([127, 0, 0, 1], port).into(), exposed);
    let opened = shown.get(&shown.link());
    let cookie = cookie_of(&opened);
    assert_eq!(shown.ask("GET", "/", &[("cookie", &cookie)]).status, 502);
    mcp.call(
        "run_command",
        json!({"command": "exec python3 program.py 8080@127.0.0.1", "background": true}),
    )
    .ok();
    crate::common::until("it serves", || {
        (shown.ask("GET", "/", &[("cookie", &cookie)]).status == 200).then_some(())
    });
    let again = mcp.call("expose_port", json!({"port": 8080}));
    assert_eq!(again.ok()["url"], shown.answer["url"]);
    let got = mcp.call("get_sandbox", json!({}));
    assert_eq!(
        got.ok()["ports"][0],
        json!({"port": 8080, "url": shown.answer["url"], "public": false})
    );
    // Unexposed, nobody gets in, nor with what was given before it is exposed again.
    for (port, already) in [(8080, false), (8080, true), (9, true)] {
        let gone = mcp.call("unexpose_port", json!({"port": port}));
        assert_eq!(gone.ok()["already_unexposed"], already, "{port}");
    }
    assert_eq!(shown.ask("GET", "/", &[("cookie", &cookie)]).status, 404);
    assert_eq!(mcp.call("get_sandbox", json!({})).ok()["ports"], json!([]));
    mcp.call("expose_port", json!({"port": 8080})).ok();
    assert_eq!(shown.ask("GET", "/", &[("cookie", &cookie)]).status, 401);
    // Nothing else is there.
    let plain =
        receive(open(shown.address, "localhost", "GET", "/mcp", &[("connection", "close")]));
    assert_eq!(plain.status, 404, "{plain:?}");
    mcp.end(home);
    assert!(TcpStream::connect(shown.address).is_err(), "it ends with its process");
}

fn previews_may_have_a_listener_of_their_own(home: &Home) {
    let text = "[previews]\nlisten = '127.0.0.1:0'\npublic_url = 'https://preview.example:8443'\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let exposed = bed.ask("POST", "/ports", &json!({"port": 8080, "public": true})).json();
    let host = format!("8080-{}.preview.example", bed.digits());
    assert_eq!(exposed["url"], format!("https://{host}:8443/"));
    let close = [("connection", "close")];
    let here = receive(open(serve.address, &host, "GET", "/health", &close));
    assert_eq!(here.status, 404, "{here:?}");
    let errors = serve.stderr();
    let line = errors.lines().find(|line| line.contains("previews=")).expect("where they are");
    let at = line.split("previews=").nth(1).and_then(|rest| rest.split(' ').next());
    let at = at.expect("an address").parse().expect("an address");
    let there = receive(open(at, &host, "GET", "/", &close));
    assert_eq!((there.status, &*there.body), (200, "hello GET /"));
    let api = receive(open(at, "localhost", "GET", "/health", &close));
    assert_eq!(api.status, 404, "{api:?}");
    // Behind TLS the cookie is tied to its host.
    let private = bed.ask("POST", "/ports", &json!({"port": 8080})).json();
    let link = private["link"].as_str().expect("a link");
    let path = link.split_once(":8443").expect("of there").1;
    let mut stream = open(at, &host, "GET", path, &close);
    stream.flush().expect("sent");
    let opened = receive(stream);
    let cookie = &opened.headers["set-cookie"];
    assert!(cookie.starts_with("__Host-holm-preview=") && cookie.ends_with("; Secure"), "{cookie}");
    serve.end();
}
