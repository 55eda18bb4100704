//! Certificates of previews from an authority, by ACME: an authority on loopback, a hook that is a
//! shell script, and clients that trust that authority alone.

mod authority;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use authority::{Authority, Life};

use crate::common::{Home, Serve, Value, as_root, as_rootless, json, until};

as_root!(
    previews_get_a_certificate_and_the_next_one_while_they_are_served,
    what_fails_takes_no_certificate_away,
    without_a_record_there_is_no_certificate_and_the_log_says_why,
    what_does_not_fit_together_is_said_at_once,
);
as_rootless!(previews_get_a_certificate_and_the_next_one_while_they_are_served);

const DOMAIN: &str = "preview.example.com";
const DAY: Duration = Duration::from_secs(86400);
const LONG: Life = (Duration::ZERO, Duration::from_secs(90 * 86400));

/// What a test writes into this home, readable for the user who runs holm.
fn file(home: &Home, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = home.dir.join(name);
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its mode");
    path
}

fn settings(home: &Home, directory: &str, hook: &str) {
    let text = format!(
        "[previews]\ndomain = '{DOMAIN}'\nlisten = '127.0.0.1:0'\n[previews.acme]\n\
         directory = '{directory}'\ncontact = 'ops@example.com'\nhook = '{hook}'\n"
    );
    std::fs::write(home.data().join("config.toml"), text).expect("written");
}

/// A hook that writes down what it is called with.
fn writing_hook(home: &Home) -> (PathBuf, PathBuf) {
    let log = file(home, "hook.log", "", 0o666);
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>{}\nenv | grep -c ^HOLM_ >>{}.env\nexit 0\n",
        log.display(),
        log.display()
    );
    file(home, "hook.log.env", "", 0o666);
    (file(home, "hook", &script, 0o755), log)
}

fn previews_at(serve: &Serve) -> SocketAddr {
    until("the log to say where they are", || {
        let errors = serve.stderr();
        let line = errors.lines().find(|line| line.contains("previews="))?;
        line.split("previews=").nth(1)?.split(' ').next()?.parse().ok()
    })
}

/// The status that a visitor gets who trusts the authority; nothing without a connection.
fn visit(at: SocketAddr, host: &str, root: &std::path::Path) -> Option<String> {
    let ran = Command::new("curl")
        .args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"])
        .arg(root)
        .args(["--resolve", &format!("{host}:{}:127.0.0.1", at.port())])
        .arg(format!("https://{host}:{}/", at.port()))
        .output()
        .expect("curl is installed");
    ran.status.success().then(|| String::from_utf8(ran.stdout).expect("text"))
}

fn previews_get_a_certificate_and_the_next_one_while_they_are_served(home: &Home) {
    let (hook, log) = writing_hook(home);
    // The first one is renewed after two thirds of its life, the second one after months.
    let authority = Authority::start(&log, &[(Duration::ZERO, Duration::from_secs(9)), LONG]);
    let root = file(home, "root.pem", &authority.root, 0o644);
    settings(home, &authority.directory(), hook.to_str().expect("text"));
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let made = serve.rest("POST", "/v1/sandboxes", &json!({}));
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let exposed = serve.rest(
        "POST",
        &format!("/v1/sandboxes/{id}/ports"),
        &json!({"port": 8080, "public": true}),
    );
    let at = previews_at(&serve);
    let host = format!("8080-{}.{DOMAIN}", &id[4..]);
    assert_eq!(exposed.json()["url"], format!("https://{host}:{}/", at.port()));
    // Nothing listens in the sandbox, which is an answer by TLS.
    until("a certificate", || (visit(at, &host, &root)? == "502").then_some(()));
    // It is in force and kept when the log says so.
    until("the next one", || {
        let errors = serve.stderr();
        (errors.matches("previews have a certificate").count() == 2).then_some(())
    });
    assert_eq!(authority.counts(), (1, 2, 2));
    assert_eq!(visit(at, &host, &root).as_deref(), Some("502"), "the one without an interruption");
    assert_eq!(visit(at, "elsewhere.example.com", &root), None, "for no other name");
    assert_eq!(authority.contact(), json!(["mailto:ops@example.com"]));
    // Each record goes again, and the hook knows no secret of the service.
    until("both records to be gone", || {
        let log = std::fs::read_to_string(&log).expect("the hook's log");
        let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
        let order: Vec<&str> = lines.iter().map(|line| line[0]).collect();
        (order == ["present", "cleanup", "present", "cleanup"]).then(|| {
            assert_eq!(lines[0][1..], lines[1][1..], "the same record");
            assert_ne!(lines[0][2], lines[2][2]);
        })
    });
    let told = std::fs::read_to_string(home.dir.join("hook.log.env")).expect("the hook's log");
    assert!(told.lines().all(|line| line == "0"), "{told}");
    // What is kept is its owner's alone.
    let mut keys = Vec::new();
    for name in ["acme-account.json", "acme-preview.json"] {
        let path = home.data().join(name);
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let kept: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).expect("read")).expect("JSON");
        keys.extend(kept["key"].as_str().map(str::to_owned));
    }
    let key = keys.first().expect("a key").lines().nth(1).expect("its second line").to_owned();
    assert!(!serve.stderr().contains(&key), "the log has no key");
    // The next start serves what was kept, and asks nobody.
    serve.end();
    home.note_instances();
    serve = home.serve(&[], &[]);
    assert_eq!(visit(previews_at(&serve), &host, &root).as_deref(), Some("502"));
    assert_eq!(authority.counts(), (1, 2, 2));
    assert_eq!(serve.rest("DELETE", &format!("/v1/sandboxes/{id}"), &Value::Null).status, 200);
    serve.end();
}

fn what_fails_takes_no_certificate_away(home: &Home) {
    let (hook, log) = writing_hook(home);
    // The first one is due to be renewed at once, the next one is over.
    let authority = Authority::start(&log, &[(DAY * 70, DAY * 20), (DAY * 90, Duration::ZERO)]);
    let root = file(home, "root.pem", &authority.root, 0o644);
    settings(home, &authority.directory(), hook.to_str().expect("text"));
    let host = format!("8080-0123456789abcdef01.{DOMAIN}");
    for (made, part) in [(1, "two thirds are over"), (2, "it is over since"), (2, "status: 7")] {
        if part == "status: 7" {
            file(home, "hook", "#!/bin/sh\nexit 7\n", 0o755);
        }
        let serve = home.serve(&[], &[]);
        until("the log to say why there is no new one", || {
            let errors = serve.stderr();
            let mut lines = errors.lines();
            lines
                .find(|line| line.contains("no certificate for previews") && line.contains(part))?;
            Some(())
        });
        assert_eq!(authority.counts().2, made, "{part}");
        assert!(visit(previews_at(&serve), &host, &root).is_some(), "the first one stays: {part}");
        serve.end();
    }
}

fn without_a_record_there_is_no_certificate_and_the_log_says_why(home: &Home) {
    let log = file(home, "hook.log", "", 0o666);
    let script = "#!/bin/sh\nprintf 'no such zone\\033[2J\\n' >&2\nexit 7\n";
    let hook = file(home, "hook", script, 0o755);
    let authority = Authority::start(&log, &[LONG]);
    let root = file(home, "root.pem", &authority.root, 0o644);
    settings(home, &authority.directory(), hook.to_str().expect("text"));
    let serve = home.serve(&[], &[]);
    let told = until("the log to say so", || {
        let errors = serve.stderr();
        errors.lines().find(|line| line.contains("no certificate for previews")).map(str::to_owned)
    });
    for part in ["present", "exit status: 7", "no such zone", DOMAIN] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains('\u{1b}'), "{told:?}");
    // TLS refuses, and the API goes on.
    let host = format!("8080-0123456789abcdef01.{DOMAIN}");
    assert_eq!(visit(previews_at(&serve), &host, &root), None);
    assert_eq!(serve.rest("GET", "/v1/sandboxes", &Value::Null).status, 200);
    assert_eq!(authority.counts().2, 0);
    serve.end();
}

fn what_does_not_fit_together_is_said_at_once(home: &Home) {
    let directory = "directory = 'https://acme.example.com/directory'\n";
    let own = "listen = '127.0.0.1:0'\ndomain = 'preview.example.com'\n";
    let hook = "hook = '/usr/bin/true'\n";
    for (previews, acme, part) in [
        (own, format!("directory = 'http://acme.example.com/'\n{hook}"), "previews.acme.directory"),
        (own, directory.to_owned(), "previews.acme.hook"),
        (own, format!("{directory}hook = 'bin/hook'\n"), "previews.acme.hook"),
        ("listen = '127.0.0.1:0'\n", format!("{directory}{hook}"), "previews.domain"),
        ("domain = 'p.example.com'\n", format!("{directory}{hook}"), "server.tls.certificate"),
    ] {
        let text = format!("[previews]\n{previews}[previews.acme]\n{acme}");
        std::fs::create_dir_all(home.data()).expect("the data directory");
        std::fs::write(home.data().join("config.toml"), &text).expect("written");
        let refused = home.holm(&["serve", "--port", "0"]);
        assert_eq!(refused.code(), Some(2), "{text} {}", refused.err());
        assert!(refused.err().contains(part), "{part}: {}", refused.err());
    }
}
