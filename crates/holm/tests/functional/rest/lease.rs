//! Leases over REST and MCP over HTTP: the same sandbox, and what each of them says about its end.

use super::{Rest, error_is, text_of};
use crate::common::{Home, Serve, Value, as_root, at_once, json, long, receive, until, uses};

as_root!(case_53_extended_and_alive_or_gone_and_said_so, case_64_an_expiry_is_told_on_every_path,);

/// A service that takes short lifetimes.
fn short_lived(home: &Home) -> Serve {
    let text = "[sandboxes]\nlifetime_min = '1s'\nmax_per_account = 100\n";
    std::fs::write(home.data().join("config.toml"), text).expect("written");
    home.serve(&[], &[])
}

fn made<'a>(serve: &'a Serve, seconds: u64) -> Rest<'a> {
    let made = serve.stateless("create_sandbox", &json!({"timeout": seconds})).tool();
    Rest::of(serve, made.ok()["sandbox_id"].as_str().expect("an id"))
}

fn time(text: &Value) -> jiff::Timestamp {
    text.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no time: {text}"))
}

/// Extends around the moment of the expiry; all that were extended live on, all others are gone.
fn case_53_extended_and_alive_or_gone_and_said_so(home: &Home) {
    let serve = short_lived(home);
    let (mut extended, mut gone) = (0, 0);
    for _ in 0..if long() { 13 } else { 1 } {
        let trials = at_once(8, |thread| {
            // Five of each thread at once, to have many trials in little time.
            at_once(5, |n| {
                let sandbox = made(&serve, 2);
                let answered = std::time::Instant::now();
                let view = sandbox.ask("GET", "", &Value::Null).json();
                let end = time(&view["expires_at"]);
                // It was ready just before its create was answered. From 150 ms before its end to 50 ms
                // after it, and one that is surely in time.
                let trial = u64::try_from(thread * 5 + n).expect("small");
                let moment = if trial == 0 { 1000 } else { 1850 + trial * 5 };
                let moment = answered + std::time::Duration::from_millis(moment);
                until("the moment", || (std::time::Instant::now() >= moment).then_some(()));
                let minutes = json!({"sandbox_id": sandbox.id, "additional_minutes": 1});
                (sandbox, end, serve.stateless("extend_sandbox", &minutes).tool())
            })
        });
        let trials: Vec<_> = trials.into_iter().flatten().collect();
        // After the next sweep too: some live, the others are gone, and none is in between.
        let last = trials.iter().map(|(_, end, _)| *end).max().expect("some");
        let later = last + jiff::SignedDuration::from_secs(7);
        until("a sweep to be over", || (jiff::Timestamp::now() >= later).then_some(()));
        for (sandbox, end, reply) in trials {
            let view = sandbox.ask("GET", "", &Value::Null).json();
            if reply.is_error() {
                assert_eq!(reply.code(), "sandbox_gone", "{}", reply.text());
                assert!(reply.text().contains("expired"), "{}", reply.text());
                assert_eq!(view["status"], "deleted", "{view}");
                assert!(!home.recorded().contains(&sandbox.id), "{view}");
                gone += 1;
                continue;
            }
            let new = time(&reply.ok()["expires_at"]);
            assert_eq!(new.duration_since(end).as_secs(), 60, "{}", reply.text());
            assert_eq!(time(&view["expires_at"]), new);
            assert_eq!(sandbox.good("echo lives"), "lives\n");
            assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
            extended += 1;
        }
        println!("{extended} extended, {gone} gone");
    }
    assert!(extended > 0 && gone > 0, "{extended} in time, {gone} too late");
    serve.end();
}

fn case_64_an_expiry_is_told_on_every_path(home: &Home) {
    let serve = short_lived(home);
    let sandbox = made(&serve, 5);
    let session = serve.session();
    let with_id = |mut arguments: Value, id: &str| {
        arguments["sandbox_id"] = json!(id);
        arguments
    };
    let command = "echo so far; sleep 600";
    let run = json!({"command": command, "timeout_ms": 600_000});
    let code = json!({"code": "import time\nprint('so far', flush=True)\ntime.sleep(600)",
        "timeout_ms": 600_000});
    let mut streamed = run.clone();
    streamed["stream"] = true.into();
    let (asked, followed) = (sandbox.start(&run), sandbox.start(&streamed));
    let path = format!("{}/run-code", sandbox.path);
    let headers = [("content-type", "application/json")];
    let coded = serve.send("POST", &path, &headers, &code.to_string());
    let called = serve.start(&session, "run_command", with_id(run, &sandbox.id));
    let code_called = serve.start(&session, "run_code", with_id(code, &sandbox.id));
    for answer in [receive(asked), receive(coded)] {
        error_is(&answer, 410, "sandbox_gone");
        let error = &answer.json()["error"];
        assert_eq!(error["ended_reason"], "expired");
        assert_eq!(error["partial"]["stdout"], "so far\n");
    }
    let events = super::events(&super::unchunked(&receive(followed).body));
    assert_eq!(text_of(&events, "stdout"), "so far\n");
    let (name, data) = events.last().expect("an end");
    assert_eq!((name.as_str(), &data["error"]["type"]), ("error", &json!("sandbox_gone")));
    assert_eq!(data["error"]["ended_reason"], "expired");
    for call in [called, code_called] {
        let reply = receive(call).tool();
        assert_eq!(reply.code(), "sandbox_gone");
        let said = reply.reply.to_string();
        assert!(said.contains("expired") && said.contains("so far"), "{said}");
    }
    let view = until("it to be gone", || {
        let view = sandbox.ask("GET", "", &Value::Null).json();
        (view["status"] == "deleted").then_some(view)
    });
    assert_eq!(view["ended_reason"], "expired", "{view}");
    let lived = time(&view["ended_at"]).duration_since(time(&view["ready_at"]));
    assert_eq!(lived.as_secs_f64().round(), 5.0, "{view}");
    let when = view["ended_at"].as_str().expect("text").to_owned();
    let never = Rest::of(&serve, "sbx_0123456789abcdef01");
    for (method, below, body) in [
        ("POST", "/exec", json!({"command": "true"})),
        ("POST", "/exec", json!({"command": "true", "stream": true})),
        ("POST", "/exec", json!({"command": "true", "background": true})),
        ("POST", "/run-code", json!({"code": "1"})),
        ("POST", "/extend", json!({})),
        ("GET", "/files?path=x", Value::Null),
        ("PUT", "/files", json!({"path": "x", "content": "y"})),
        ("DELETE", "/files?path=x", Value::Null),
        ("GET", "/files/raw?path=x", Value::Null),
        ("GET", "/files/list", Value::Null),
    ] {
        let later = sandbox.ask(method, below, &body);
        error_is(&later, 410, "sandbox_gone");
        let error = &later.json()["error"];
        assert_eq!((&error["ended_reason"], &error["ended_at"]), (&json!("expired"), &json!(when)));
        error_is(&never.ask(method, below, &body), 404, "not_found");
    }
    error_is(&receive(sandbox.upload("path=x", 0)), 410, "sandbox_gone");
    error_is(&receive(never.upload("path=x", 0)), 404, "not_found");
    for (tool, arguments) in uses() {
        let reply = serve.call(&session, tool, with_id(arguments.clone(), &sandbox.id));
        assert_eq!(reply.code(), "sandbox_gone", "{tool}");
        assert!(reply.text().contains("expired"), "{tool}: {}", reply.text());
        assert!(reply.text().contains(&when[..19]), "{tool} says when: {}", reply.text());
        let reply = serve.call(&session, tool, with_id(arguments, &never.id));
        assert_eq!(reply.code(), "not_found", "{tool}");
    }
    serve.end();
}
