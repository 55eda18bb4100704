//! Commands in the background over REST.

use rustix::process::Signal;

use super::{Rest, error_is};
use crate::common::{Home, Value, as_root, as_rootless, json, until};

as_root!(case_21_found_again_after_a_crash_of_the_service, others_do_not_see_them,);
as_rootless!(case_21_found_again_after_a_crash_of_the_service,);

fn text_from(sandbox: &Rest, id: &str, from: u64) -> (String, u64, Value) {
    let query = format!("/commands/output?command_id={id}&stdout_from={from}&wait_ms=60000");
    let answer = sandbox.ask("GET", &query, &Value::Null);
    assert_eq!(answer.status, 200, "{answer:?}");
    let now = answer.json();
    assert_eq!(now["stdout"]["missed"], 0, "{now}");
    let text = now["stdout"]["text"].as_str().expect("text").to_owned();
    (text, now["stdout"]["next"].as_u64().expect("a place"), now)
}

/// The service is killed while it runs; output is read on from where it was, and its exit code is
/// there.
fn case_21_found_again_after_a_crash_of_the_service(home: &Home) {
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let made = Rest::new(&serve, &json!({}));
    let command = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; sleep 0.01; done; exit 7";
    let begun = made.ask("POST", "/exec", &json!({"command": command, "background": true}));
    assert_eq!(begun.status, 202, "{begun:?}");
    let id = begun.json()["command_id"].as_str().expect("an id").to_owned();
    let sandbox_id = made.id.clone();
    let (mut text, mut from) = (String::new(), 0);
    for _ in 0..3 {
        let sandbox = Rest::of(&serve, &sandbox_id);
        let (more, next, now) = text_from(&sandbox, &id, from);
        assert_eq!(now["state"], "running", "{now}");
        text.push_str(&more);
        from = next;
        serve.signal(Signal::KILL);
        serve.wait();
        serve = home.serve(&["--on-stop", "keep"], &[]);
    }
    let sandbox = Rest::of(&serve, &sandbox_id);
    sandbox.good("touch stop");
    let end = loop {
        let (more, next, now) = text_from(&sandbox, &id, from);
        text.push_str(&more);
        from = next;
        if now["state"] != "running" && now["stdout_bytes"] == from {
            break now;
        }
    };
    assert_eq!((&end["state"], &end["exit_code"]), (&json!("exited"), &json!(7)));
    let count = text.lines().count();
    let want: String = (1..=count).map(|n| format!("{n}\n")).collect();
    assert!(count > 3 && text == want, "nothing is lost and nothing twice: {count} lines");
    sandbox.ask("DELETE", "", &Value::Null);
    serve.end();
}

fn others_do_not_see_them(home: &Home) {
    let serve = home.serve(&[], &[]);
    let mine = Rest::new(&serve, &json!({}));
    let begun = mine.ask(
        "POST",
        "/exec",
        &json!({"command": "cat", "background": true, "keep_stdin": true}),
    );
    let id = begun.json()["command_id"].clone();
    let stranger = serve.with_key(home.tenant("other"));
    let theirs = Rest::of(&stranger, &mine.id);
    let named = json!({"command_id": id});
    let output = format!("/commands/output?command_id={}", id.as_str().expect("an id"));
    for (method, below, body) in [
        ("GET", "/commands", &Value::Null),
        ("GET", output.as_str(), &Value::Null),
        ("POST", "/commands/input", &named),
        ("POST", "/commands/kill", &named),
    ] {
        error_is(&theirs.ask(method, below, body), 404, "not_found");
    }
    let listed = mine.ask("GET", "/commands", &Value::Null).json();
    assert_eq!(listed["commands"][0]["state"], "running", "{listed}");
    let more = json!({"command_id": id, "text": "a b\n", "close": true});
    assert_eq!(mine.ask("POST", "/commands/input", &more).status, 200);
    let end = until("it ends", || {
        let now = mine.ask("GET", &output, &Value::Null).json();
        (now["state"] == "exited").then_some(now)
    });
    assert_eq!((&end["stdout"]["text"], &end["exit_code"]), (&json!("a b\n"), &json!(0)));
    let killed = mine.ask("POST", "/commands/kill", &json!({"command_id": id}));
    assert_eq!(killed.json()["state"], "exited", "one that has ended stays as it was");
    let odd = json!({"command_id": id, "signal": "SIGNOPE"});
    error_is(&mine.ask("POST", "/commands/kill", &odd), 400, "invalid_request");
    error_is(
        &mine.ask("POST", "/commands/kill", &json!({"command_id": "cmd_9"})),
        404,
        "not_found",
    );
    serve.end();
}
