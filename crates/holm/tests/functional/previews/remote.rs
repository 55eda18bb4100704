//! Ports of a service's sandboxes from elsewhere: by `holm port`, and by the tools of a `holm mcp` in
//! front of a service.

use super::{Shown, open};
use crate::common::{Exit, Home, Mcp, Serve, Value, as_root, finish, json, receive};

as_root!(ports_are_exposed_by_the_command_line, tools_in_front_of_a_service_expose_ports_there);

/// `holm` as a client of the service.
fn holm(home: &Home, serve: &Serve, arguments: &[&str]) -> Exit {
    let mut command = home.command();
    command.args(arguments);
    command.env("HOLM_URL", format!("http://{}", serve.address));
    command.env("HOLM_API_KEY", serve.key.as_deref().expect("a key"));
    finish(command, b"")
}

fn ports_are_exposed_by_the_command_line(home: &Home) {
    let serve = home.serve(&[], &[]);
    let made = serve.rest("POST", "/v1/sandboxes", &json!({}));
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let port = |arguments: &[&str]| {
        let done = holm(home, &serve, &[&["port"], arguments].concat());
        assert_eq!(done.code(), Some(0), "{}", done.err());
        done.out()
    };
    let url = format!("http://8080-{}.localhost:{}/", &id[4..], serve.address.port());
    // What is printed can be opened: nothing listens yet, and the page says so.
    let link = port(&["expose", &id, "8080"]);
    assert!(link.starts_with(&format!("{url}?holm_token=")), "{link}");
    let path = link.trim().strip_prefix(url.trim_end_matches('/')).expect("of its host").to_owned();
    let host = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let opened = receive(open(serve.address, &host, "GET", &path, &[("connection", "close")]));
    assert_eq!(opened.status, 303, "{opened:?}");
    assert_eq!(port(&["expose", &id, "8080", "--public"]).trim(), url);
    let exposed: Value =
        serde_json::from_str(&port(&["expose", &id, "81", "--json"])).expect("JSON");
    assert_eq!((&exposed["port"], &exposed["public"]), (&json!(81), &json!(false)));
    assert!(exposed["token"].is_string() && exposed["link"].is_string());
    let list = port(&["list", &id]);
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PORT", "URL", "PUBLIC", "SINCE"]);
    assert_eq!(rows[1][..3], ["81", &url.replace("8080", "81"), "no"]);
    assert_eq!(rows[2][..3], ["8080", &url, "yes"]);
    assert_eq!(port(&["unexpose", &id, "8080"]), "8080 is unexposed\n");
    assert_eq!(port(&["unexpose", &id, "8080"]), "8080 was not exposed\n");
    let left: Value = serde_json::from_str(&port(&["list", &id, "--json"])).expect("JSON");
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    // Refusals name what is wrong.
    for (arguments, code, part) in [
        (&["port", "list", "sbx_0123456789abcdef01"][..], 1, "there is no sandbox"),
        (&["port", "expose", "elsewhere", "80"], 2, "the sandbox"),
        (&["port", "expose", &id, "0"], 2, "0 is not in 1..=65535"),
    ] {
        let refused = holm(home, &serve, arguments);
        assert_eq!(refused.code(), Some(code), "{arguments:?} {}", refused.err());
        assert!(refused.err().contains(part), "{}", refused.err());
    }
    let nowhere = home.holm(&["port", "list", &id]);
    assert!(nowhere.code() == Some(2) && nowhere.err().contains("HOLM_URL"), "{}", nowhere.err());
    serve.end();
}

fn tools_in_front_of_a_service_expose_ports_there(home: &Home) {
    let serve = home.serve(&[], &[("HOLM_PREVIEW_DOMAIN", "preview.example.com")]);
    let mut command = home.command();
    command.arg("mcp").env("HOLM_URL", format!("http://{}", serve.address));
    command.env("HOLM_API_KEY", serve.key.as_deref().expect("a key"));
    let mcp = Mcp::spawn(command, home);
    mcp.initialize("2025-06-18");
    let id = mcp.create();
    let exposed = mcp.call("expose_port", json!({"port": 8080, "public": true}));
    let exposed = exposed.ok().clone();
    let host = format!("8080-{}.preview.example.com:{}", &id[4..], serve.address.port());
    assert_eq!(exposed["url"], format!("http://{host}/"));
    let serving = "exec python3 -m http.server 8080 --bind 127.0.0.1";
    mcp.call("run_command", json!({"command": serving, "background": true})).ok();
    let shown = Shown::of(serve.address, exposed);
    crate::common::until("it serves", || (shown.get("/").status == 200).then_some(()));
    let got = mcp.call("get_sandbox", json!({}));
    assert_eq!(got.ok()["ports"][0]["url"], shown.answer["url"]);
    // A private one, and its end.
    let private = mcp.call("expose_port", json!({"port": 8080}));
    let private = Shown::of(serve.address, private.ok().clone());
    assert_eq!(private.get("/").status, 401);
    assert_eq!(private.ask("GET", "/", &[("x-holm-preview-token", private.token())]).status, 200);
    let gone = mcp.call("unexpose_port", json!({"port": 8080}));
    assert_eq!(gone.ok()["already_unexposed"], false);
    assert_eq!(private.ask("GET", "/", &[("x-holm-preview-token", private.token())]).status, 404);
    mcp.destroy(&id);
    mcp.end(home);
    serve.end();
}
