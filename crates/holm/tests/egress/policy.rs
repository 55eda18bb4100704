//! Policies over REST and MCP: at a create, changed while something runs, under an account's
//! ceiling, and over a crash of the service.

use std::net::IpAddr;

use rustix::process::Signal;

use crate::bed::*;
use crate::common::*;

on_beds!(
    Root,
    root: a_policy_holds_from_its_create_and_is_changed_live,
    agents_learn_why_over_mcp,
    an_accounts_ceiling_holds_for_what_runs,
    after_a_crash_nothing_is_open_in_between,
    a_default_is_what_the_operator_says,
);
on_beds!(
    Rootless,
    rootless: a_policy_holds_from_its_create_and_is_changed_live,
    after_a_crash_nothing_is_open_in_between,
);

const SITE: &str = "http://site.bed.test/";
const OTHER: &str = "http://other.bed.test/";

/// A sandbox of a service.
struct Box<'a> {
    client: &'a Client,
    id: String,
}

impl<'a> Box<'a> {
    fn new(client: &'a Client, wanted: &Value) -> Self {
        let made = client.rest("POST", "/v1/sandboxes", wanted);
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        Self { client, id }
    }

    fn ask(&self, method: &str, below: &str, body: &Value) -> Answer {
        self.client.rest(method, &format!("/v1/sandboxes/{}{below}", self.id), body)
    }

    fn sh(&self, command: &str) -> Value {
        let ran = self.ask("POST", "/exec", &json!({"command": command}));
        assert_eq!(ran.status, 200, "{ran:?}");
        ran.json()
    }

    /// Whether a page of the internet comes.
    fn gets(&self, url: &str) -> bool {
        let ran = self.sh(&format!("curl -sS --max-time 100 -o /dev/null {url}"));
        ran["exit_code"] == 0
    }

    fn network(&self) -> Value {
        let seen = self.ask("GET", "/network", &Value::Null);
        assert_eq!(seen.status, 200, "{seen:?}");
        seen.json()
    }

    fn set(&self, network: Value) -> Answer {
        self.ask("PUT", "/network", &json!({"network": network}))
    }
}

fn reached(bed: &Bed, address: impl Into<IpAddr>) -> bool {
    let address = address.into();
    bed.internet.seen.connections().iter().any(|connection| connection.to.ip() == address)
}

fn a_policy_holds_from_its_create_and_is_changed_live(home: &Home, bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let sandbox = Box::new(&serve, &json!({"network": "none"}));
    assert!(!sandbox.gets(SITE));
    assert_eq!(bed.sent(), [], "on the cable");
    // Opened for one name while it runs.
    let allow = json!({"mode": "allow", "allow": ["site.bed.test:80"]});
    let set = sandbox.set(allow.clone());
    assert_eq!((set.status, &set.json()["network"]), (200, &allow));
    assert!(sandbox.gets(SITE) && !sandbox.gets(OTHER));
    assert!(!reached(bed, OTHER4) && !reached(bed, OTHER6));
    let seen = sandbox.network();
    assert_eq!((&seen["network"], &seen["attached"]), (&allow, &json!(true)));
    for counted in ["bytes_in", "bytes_out", "connections", "dns_queries", "denied"] {
        assert!(seen[counted].as_u64().expect("a number") > 0, "{counted}: {seen}");
    }
    let denials = seen["denials"].as_array().expect("a list");
    let denied = denials.iter().find(|denial| denial["name"] == "other.bed.test");
    assert!(denied.expect("told")["rule"].as_str().is_some_and(|rule| !rule.is_empty()), "{seen}");
    // What is forbidden again is cut off, also where it is under way.
    let run = json!({
        "command": "curl -sS --max-time 200 http://site.bed.test/hang; echo ended",
        "timeout_ms": 300_000,
    });
    let hanging = |request: &Request| request.path == "/hang";
    let cut = std::thread::scope(|scope| {
        let running = scope.spawn(|| sandbox.ask("POST", "/exec", &run));
        until("it hangs there", || bed.internet.seen.requests().iter().any(hanging).then_some(()));
        assert_eq!(sandbox.set(json!("none")).status, 200);
        running.join().expect("no panic")
    });
    assert_eq!(cut.json()["stdout"], "ended\n", "{cut:?}");
    assert_eq!(cut.json()["timed_out"], false);
    assert!(!sandbox.gets(SITE));
    // A text is taken as well, as in a tool.
    assert_eq!(sandbox.set(json!("allow:site.bed.test;deny:203.0.113.20")).status, 200);
    let shown = json!({"mode": "allow", "allow": ["site.bed.test"], "deny": ["203.0.113.20"]});
    assert_eq!(sandbox.network()["network"], shown);
    let made = Box::new(&serve, &json!({"network": "allow:site.bed.test"}));
    assert_eq!(made.network()["network"]["allow"], json!(["site.bed.test"]));
    assert_eq!(made.ask("DELETE", "", &Value::Null).status, 200);
    assert_eq!(sandbox.set(json!("none")).status, 200);
    // What is no policy changes nothing.
    for wrong in [json!("closed"), json!({"mode": "allow", "allow": ["*"]}), json!(7)] {
        assert_eq!(sandbox.set(wrong).status, 400);
    }
    assert_eq!(sandbox.network()["network"], "none");
    // What has gone through is in the usage, also of one that is over.
    let before = sandbox.network()["bytes_in"].clone();
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    assert_eq!(sandbox.network()["bytes_in"], before);
    let usage = serve.rest("GET", "/v1/usage", &Value::Null).json();
    assert_eq!((&usage["bytes_in"], &usage["recent"][1]["bytes_in"]), (&before, &before));
    assert_eq!(sandbox.set(json!("open")).status, 410);
    serve.end();
}

fn agents_learn_why_over_mcp(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let info = mcp.call("get_service_info", json!({}));
    assert_eq!(info.ok()["network_default"], "open", "{}", info.text());
    let sandbox = mcp.create_with(json!({"network": {"mode": "open", "deny": ["*.bed.test"]}}));
    let run = mcp.sh(&sandbox, &format!("curl -sS --max-time 100 {SITE}"));
    assert_ne!(run.exit_code, 0);
    assert!(!reached(bed, SITE4) && !reached(bed, SITE6));
    let seen = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
    let denied = seen.ok()["network_denied"].as_array().expect("a list").clone();
    assert!(denied.iter().any(|denial| {
        denial["name"] == "site.bed.test"
            && denial["rule"].as_str().is_some_and(|rule| rule.contains("*.bed.test"))
    }));
    assert!(seen.ok()["network_hint"].as_str().is_some_and(|hint| hint.contains("set_network")));
    // It does what the hint says, and the sandbox goes on.
    let set = |network: Value| {
        mcp.call("set_network", json!({"sandbox_id": sandbox, "network": network}))
    };
    let changed = set(json!("allow:site.bed.test:80"));
    let allow = json!({"mode": "allow", "allow": ["site.bed.test:80"]});
    assert_eq!(changed.ok(), &json!({"sandbox_id": sandbox, "network": allow}));
    assert_eq!(mcp.sh(&sandbox, &format!("curl -sS -o /dev/null {SITE} && echo in")).good(), "in");
    assert_eq!(set(json!({"mode": "allow", "allow": ["a b"]})).code(), "invalid_argument");
    assert_eq!(set(Value::Null).code(), "invalid_argument");
    assert_eq!(set(json!("none")).ok()["network"], "none");
    assert_ne!(mcp.sh(&sandbox, &format!("curl -sS {SITE}")).exit_code, 0);
    // The short text form is taken as well.
    let other = mcp.create_with(json!({"network": "allow:site.bed.test"}));
    assert_eq!(
        mcp.sh(&other, &format!("curl -sS -o /dev/null {SITE} && echo came")).good(),
        "came"
    );
    let seen = mcp.call("get_sandbox", json!({"sandbox_id": other}));
    assert_eq!(seen.ok()["network"], json!({"mode": "allow", "allow": ["site.bed.test"]}));
    assert!(seen.ok()["traffic"]["bytes_in"].as_u64().expect("a number") > 0);
    let wrong = mcp.call("create_sandbox", json!({"network": "allow:a b"}));
    assert_eq!(wrong.code(), "invalid_argument");
    mcp.end(home);
}

fn an_accounts_ceiling_holds_for_what_runs(home: &Home, bed: &Bed) {
    let serve = home.serve(&[], &[]);
    let run = |arguments: &[&str]| {
        let exit = home.holm(arguments);
        assert_eq!(exit.code(), Some(0), "{arguments:?}: {}", exit.err());
        exit.out().trim().to_owned()
    };
    let account = run(&["account", "create", "tenant", "--network", "allow:site.bed.test"]);
    let key = run(&["key", "create", &account]);
    let tenant = serve.with_key(key);
    let sandbox = Box::new(&tenant, &json!({"network": "open"}));
    assert_eq!(sandbox.network()["ceiling"]["allow"], json!(["site.bed.test"]));
    assert!(sandbox.gets(SITE) && !sandbox.gets(OTHER));
    assert!(!reached(bed, OTHER4) && !reached(bed, OTHER6));
    // By an administrator's key: at once. By the database: soon.
    let admin = serve.with_key(run(&["key", "create", &account, "--scopes", "admin"]));
    let path = format!("/v1/accounts/{account}");
    let changed = admin.rest("PATCH", &path, &json!({"network": "none"}));
    assert_eq!((changed.status, &changed.json()["network"]), (200, &json!("none")));
    assert_eq!(sandbox.network()["ceiling"], "none");
    assert!(!sandbox.gets(SITE));
    run(&["account", "set", &account, "--network", "default"]);
    until("the ceiling is gone", || sandbox.network()["ceiling"].is_null().then_some(()));
    assert!(sandbox.gets(SITE) && sandbox.gets(OTHER));
    assert_eq!(tenant.rest("PATCH", &path, &json!({"network": "open"})).status, 403);
    assert_eq!(admin.rest("PATCH", &path, &json!({"network": "closed"})).status, 400);
    // A foreign sandbox's network looks like that of none.
    let path = format!("/v1/sandboxes/{}/network", sandbox.id);
    assert_eq!(serve.rest("GET", &path, &Value::Null).status, 404);
    assert_eq!(serve.rest("PUT", &path, &json!({"network": "none"})).status, 404);
    assert!(sandbox.gets(SITE));
    serve.end();
}

/// Tries without a pause, so that a moment in which it is open would be met.
const TRY: &str = "
import socket, time
while True:
    for name, address in (('site', '203.0.113.10'), ('other', '203.0.113.20')):
        try:
            s = socket.create_connection((address, 80), 100)
            s.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
            if s.recv(1):
                open(name, 'a').write('x')
        except OSError:
            pass
";

fn after_a_crash_nothing_is_open_in_between(home: &Home, bed: &Bed) {
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let allow = json!({"mode": "allow", "allow": ["203.0.113.10:80"]});
    let sandbox = Box::new(&serve, &json!({"network": allow}));
    let write = json!({"path": "/workspace/try.py", "content": TRY});
    assert!(matches!(sandbox.ask("PUT", "/files", &write).status, 200 | 201));
    sandbox.sh("setsid python3 try.py > /dev/null 2>&1 &");
    let count = |sandbox: &Box<'_>, name: &str| {
        let ran = sandbox.sh(&format!("cat {name} 2> /dev/null | wc -c"));
        ran["stdout"].as_str().expect("text").trim().parse::<u64>().expect("a number")
    };
    until("it reaches the one", || (count(&sandbox, "site") > 3).then_some(()));
    let traffic = |sandbox: &Box<'_>| sandbox.network()["connections"].as_u64().expect("a number");
    assert!(traffic(&sandbox) > 0);
    let id = sandbox.id;
    for _ in 0..2 {
        serve.signal(Signal::KILL);
        serve.wait();
        let gone = bed.internet.seen.accepted();
        serve = home.serve(&["--on-stop", "keep"], &[]);
        let sandbox = Box { client: &serve, id: id.clone() };
        let seen = sandbox.network();
        assert_eq!((&seen["network"], &seen["attached"]), (&allow, &json!(true)));
        let before = count(&sandbox, "site");
        until("it reaches it again", || (count(&sandbox, "site") > before).then_some(()));
        assert!(bed.internet.seen.accepted() > gone);
        assert_eq!(count(&sandbox, "other"), 0, "it was open");
        assert!(!reached(bed, OTHER4), "it was open");
    }
    let sandbox = Box { client: &serve, id };
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    serve.end();
}

fn a_default_is_what_the_operator_says(home: &Home, bed: &Bed) {
    let deny = "[network]\ndeny = \"other.bed.test,203.0.113.20\"\n";
    std::fs::write(home.data().join("config.toml"), deny).expect("a settings file");
    let serve = home.serve(&["--network", "allow:site.bed.test"], &[]);
    let sandbox = Box::new(&serve, &json!({}));
    assert!(sandbox.gets(SITE) && !sandbox.gets("http://203.0.113.30/"));
    let open = Box::new(&serve, &json!({"network": "open"}));
    assert!(open.gets(SITE) && open.gets("http://203.0.113.30/") && !open.gets(OTHER));
    let denial = open.network()["denials"][0]["rule"].as_str().expect("a rule").to_owned();
    assert!(denial.starts_with("service: "), "{denial}");
    assert!(!reached(bed, OTHER4) && !reached(bed, OTHER6));
    serve.end();
    let ran = home.holm(&["run", "--network", "none", "--", "curl", "-sS", SITE]);
    assert_ne!(ran.code(), Some(0));
    let ran = home.holm(&["run", "--", "curl", "-sS", "-o", "/dev/null", SITE]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
}
