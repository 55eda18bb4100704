//! Secrets: usable, not readable.

use rustix::process::Signal;

use crate::bed::*;
use crate::common::*;

on_beds!(Root, root: a_secret_is_used_and_never_seen, changes_reach_what_runs, a_secret_works_again_after_kill_9);
on_beds!(Rootless, rootless: a_secret_is_used_and_never_seen, a_secret_works_again_after_kill_9);

const VALUE: &str = "s3cr3t-marker-0123456789";
const OTHER_VALUE: &str = "an0ther-marker-9876543210";

/// A service that trusts the internet's authority.
fn serve(home: &Home) -> Serve {
    serve_with(home, &[])
}

fn serve_with(home: &Home, arguments: &[&str]) -> Serve {
    let path = home.dir.join("authority.pem");
    std::fs::write(&path, authority_pem().expect("an authority")).expect("a file");
    home.serve(arguments, &[("SSL_CERT_FILE", path.to_str().expect("text"))])
}

fn put(client: &Client, name: &str, value: &str) -> Answer {
    let body = json!({"value": value, "hosts": ["site.bed.test"]});
    client.rest("PUT", &format!("/v1/secrets/{name}"), &body)
}

fn create(client: &Client, wanted: &Value) -> String {
    let made = client.rest("POST", "/v1/sandboxes", wanted);
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().expect("an id").to_owned()
}

fn sh(client: &Client, id: &str, command: &str) -> Value {
    let body = json!({"command": command, "timeout_ms": 200_000});
    let ran = client.rest("POST", &format!("/v1/sandboxes/{id}/exec"), &body);
    assert_eq!(ran.status, 200, "{ran:?}");
    ran.json()
}

/// What the internet was sent as `Authorization` for this path.
fn sent(bed: &Bed, path: &str) -> Option<String> {
    let requests = bed.internet.seen.requests();
    let found = requests.iter().find(|request| request.path == path)?;
    found.header("authorization").map(str::to_owned)
}

fn a_secret_is_used_and_never_seen(home: &Home, bed: &Bed) {
    let serve = serve(home);
    let made = put(&serve, "TOKEN", VALUE);
    assert_eq!(made.status, 200, "{made:?}");
    let listed = serve.rest("GET", "/v1/secrets", &Value::Null);
    assert_eq!(listed.json()["secrets"][0]["hosts"], json!(["site.bed.test"]));
    let id = create(&serve, &json!({"network": "open", "secrets": ["TOKEN"]}));
    // In the header of the host that it is bound to, and nowhere else.
    let to = |url: &str| format!("curl -sS -o /dev/null -H \"Authorization: Bearer $TOKEN\" {url}");
    let ran = sh(&serve, &id, &to("https://site.bed.test/bound"));
    assert_eq!(ran["exit_code"], 0, "{ran}");
    assert_eq!(sent(bed, "/bound"), Some(format!("Bearer {VALUE}")));
    for (url, path) in
        [("http://site.bed.test/plain", "/plain"), ("http://other.bed.test/other", "/other")]
    {
        sh(&serve, &id, &to(url));
        let said = sent(bed, path);
        assert!(said.as_deref().is_none_or(|said| said.contains("holm_ph_")), "{url}: {said:?}");
    }
    // Nothing inside has it.
    let look = "echo $TOKEN; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'";
    let seen = sh(&serve, &id, look)["stdout"].as_str().expect("text").to_owned();
    assert!(seen.starts_with("holm_ph_") && !seen.contains(VALUE), "{seen}");
    let grep = format!("grep -rlsF {} /etc /home /run /tmp /workspace /var", &VALUE[3..]);
    assert_eq!(sh(&serve, &id, &grep)["stdout"], "");
    // A sandbox that did not ask for it has nothing, not even the text.
    let without = create(&serve, &json!({"network": "open"}));
    assert_eq!(
        sh(&serve, &without, "echo ${TOKEN-none} ${SSL_CERT_FILE-none}")["stdout"],
        "none none\n"
    );
    // Nothing that the service says or keeps has it.
    for path in ["/v1/secrets", &format!("/v1/sandboxes/{id}"), "/v1/usage"] {
        let answer = serve.rest("GET", path, &Value::Null);
        assert!(!answer.body.contains(VALUE), "{path}: {}", answer.body);
    }
    assert!(!serve.stderr().contains(VALUE));
    let mut looked_at = 0;
    for entry in std::fs::read_dir(home.data()).expect("the data directory") {
        let Ok(bytes) = std::fs::read(entry.expect("an entry").path()) else { continue };
        looked_at += bytes.len();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "it is in a file");
    }
    assert!(looked_at > 4096);
    // Its name has to be there, and must not be a variable as well.
    for (wanted, part) in [
        (json!({"secrets": ["ABSENT"]}), "ABSENT"),
        (json!({"secrets": ["TOKEN"], "env": {"TOKEN": "x"}}), "TOKEN"),
    ] {
        let refused = serve.rest("POST", "/v1/sandboxes", &wanted);
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains(part), "{}", refused.body);
    }
    serve.end();
}

fn changes_reach_what_runs(home: &Home, bed: &Bed) {
    let serve = serve(home);
    // From the command line, on the database of the service that runs.
    let set = ["secret", "set", "TOKEN", "--host", "site.bed.test", "--account", "first"];
    let done = home.holm_with(&set, format!("{VALUE}\n").as_bytes());
    assert_eq!(done.code(), Some(0), "{}", done.err());
    assert!(!done.out().contains(VALUE) && !done.err().contains(VALUE));
    let id = create(&serve, &json!({"secrets": ["TOKEN"]}));
    let ask = |path: &str| {
        let header = "-H \"Authorization: Bearer $TOKEN\"";
        sh(&serve, &id, &format!("curl -sS -o /dev/null {header} https://site.bed.test{path}"));
        sent(bed, path)
    };
    assert_eq!(ask("/one"), Some(format!("Bearer {VALUE}")));
    assert_eq!(home.holm_with(&set, OTHER_VALUE.as_bytes()).code(), Some(0));
    let mut tries = 0;
    until("the new one is used", || {
        tries += 1;
        (ask(&format!("/new/{tries}"))? == format!("Bearer {OTHER_VALUE}")).then_some(())
    });
    // Gone: what stands for it goes out as it is, at the latest soon.
    let listed = home.holm(&["secret", "list", "--account", "first"]);
    assert!(listed.out().contains("TOKEN") && !listed.out().contains(OTHER_VALUE));
    assert_eq!(home.holm(&["secret", "rm", "TOKEN", "--account", "first"]).code(), Some(0));
    until("it is used no more", || {
        tries += 1;
        let said = ask(&format!("/gone/{tries}"));
        said.is_none_or(|said| said.contains("holm_ph_")).then_some(())
    });
    assert_eq!(home.holm(&["secret", "rm", "TOKEN", "--account", "first"]).code(), Some(1));
    // Somebody else's of that name is not theirs.
    let account = home.holm(&["account", "create", "other"]).out().trim().to_owned();
    let key = home.holm(&["key", "create", &account]).out().trim().to_owned();
    assert_eq!(put(&serve, "TOKEN", VALUE).status, 200);
    let other = serve.with_key(key);
    assert_eq!(other.rest("GET", "/v1/secrets", &Value::Null).json()["secrets"], json!([]));
    assert_eq!(other.rest("DELETE", "/v1/secrets/TOKEN", &Value::Null).status, 404);
    let refused = other.rest("POST", "/v1/sandboxes", &json!({"secrets": ["TOKEN"]}));
    assert_eq!(refused.status, 400, "{refused:?}");
    serve.end();
}

/// The service is killed; its sandbox goes on, and its secret is where it was when the next one has it.
fn a_secret_works_again_after_kill_9(home: &Home, bed: &Bed) {
    let keep = ["--on-stop", "keep"];
    let mut serve = serve_with(home, &keep);
    assert_eq!(put(&serve, "TOKEN", VALUE).status, 200);
    let id =
        create(&serve, &json!({"network": "open", "secrets": ["TOKEN"], "timeout_minutes": 10}));
    let ask = |client: &Client, path: &str| {
        let header = "-H \"Authorization: Bearer $TOKEN\"";
        sh(client, &id, &format!("curl -sS -o /dev/null {header} https://site.bed.test{path}"));
        sent(bed, path)
    };
    let wanted = Some(format!("Bearer {VALUE}"));
    assert_eq!(ask(&serve, "/before"), wanted);
    let text = |client: &Client| sh(client, &id, "echo $TOKEN")["stdout"].clone();
    let placeholder = text(&serve);
    for round in 0..2 {
        serve.signal(Signal::KILL);
        serve.wait();
        serve = serve_with(home, &keep);
        // The gate is attached before its sandbox can be used, with what it puts in.
        assert_eq!(ask(&serve, &format!("/after/{round}")), wanted, "{round}");
        assert_eq!(text(&serve), placeholder, "what stands for it is the same");
    }
    // A new value counts for it as before.
    assert_eq!(put(&serve, "TOKEN", OTHER_VALUE).status, 200);
    let mut tries = 0;
    until("the new one is used", || {
        tries += 1;
        (ask(&serve, &format!("/new/{tries}"))? == format!("Bearer {OTHER_VALUE}")).then_some(())
    });
    assert!(!serve.stderr().contains(VALUE));
    assert_eq!(serve.rest("DELETE", &format!("/v1/sandboxes/{id}"), &Value::Null).status, 200);
    serve.end();
}
