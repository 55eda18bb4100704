//! Services that refuse, and peers that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{Home, Value, as_root, finish, json, until};
use crate::peer::{reply, scripted};
use crate::{TOKEN, client, end, raw, service};

as_root!(
    a_key_that_is_missing_ends_the_process,
    a_service_without_keys_needs_none,
    a_wrong_key_is_said,
    the_key_of_an_account_works_and_one_like_it_does_not,
    a_service_that_wants_a_pause_gets_it,
    a_long_pause_is_told,
    nothing_is_sent_twice_that_may_have_been_taken,
    case_71_redirects_are_not_followed,
    progress_comes_through,
    what_is_no_service_is_said,
);

fn a_key_that_is_missing_ends_the_process(home: &Home) {
    let service = service(home);
    for url in [format!("http://{}", service.address), "https://holm.example".to_owned()] {
        let mut command = home.command();
        command.arg("mcp").env("HOLM_URL", url);
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let done = finish(command, line.as_bytes());
        let expected =
            "error: HOLM_URL names a service that needs a key, and HOLM_API_KEY is not set\n";
        assert_eq!((done.code(), &*done.out(), &*done.err()), (Some(1), "", expected));
    }
    service.end();
}

fn a_service_without_keys_needs_none(home: &Home) {
    let service = home.serve(&["--auth", "none"], &[]);
    let url = format!("http://{}", service.address);
    let mcp = raw(home, &url, &[("HOLM_API_KEY", "")]);
    assert_eq!(mcp.call("run_code", json!({"code": "print(1)"})).ok()["stdout"], "1\n");
    end(mcp);
    service.end();
}

fn a_wrong_key_is_said(home: &Home) {
    let service = service(home);
    let url = format!("http://{}", service.address);
    let mcp = raw(home, &url, &[("HOLM_API_KEY", ""), ("AAS_API_KEY", "x-other-x")]);
    mcp.initialize("2025-11-25");
    let refused = mcp.call("run_code", json!({"code": "print(1)"}));
    assert_eq!(refused.code(), "unauthorized");
    assert!(refused.text().contains("AAS_API_KEY"), "{}", refused.text());
    assert!(!refused.text().contains("x-other-x"), "{}", refused.text());
    assert!(!mcp.stderr().contains("x-other-x"), "{}", mcp.stderr());
    end(mcp);
    service.end();
}

fn the_key_of_an_account_works_and_one_like_it_does_not(home: &Home) {
    let service = home.serve(&[], &[]);
    let url = format!("http://{}", service.address);
    let key = service.key.clone().expect("the first key");
    let mcp = raw(home, &url, &[("HOLM_API_KEY", &key)]);
    let id = mcp.create();
    assert_eq!(mcp.list(), [&*id]);
    let refused = raw(home, &url, &[("HOLM_API_KEY", &format!("{key}x"))]);
    assert_eq!(refused.call("list_sandboxes", json!({})).code(), "unauthorized");
    // What is free without a key is not free with a wrong one.
    assert_eq!(refused.call("get_service_info", json!({})).code(), "unauthorized");
    end(refused);
    assert!(!mcp.stderr().contains(&key), "{}", mcp.stderr());
    end(mcp);
    service.end();
}

/// A peer that answers `initialize` like a service, and calls as `call` says.
fn fake(call: impl Fn(usize, &Value) -> Option<String> + Send + 'static) -> String {
    let count = AtomicUsize::new(0);
    let address = scripted(move |head, body| {
        assert!(head.to_lowercase().contains(&format!("authorization: bearer {TOKEN}")), "{head}");
        let result = |result: Value| {
            json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string()
        };
        match body["method"].as_str() {
            Some("initialize") => {
                Some(reply("200 OK", "mcp-session-id: one\r\n", &result(json!({}))))
            }
            Some("tools/call") => call(count.fetch_add(1, Ordering::SeqCst), body),
            Some("tools/list") => Some(reply("404 Not Found", "", "")),
            _ => Some(reply("202 Accepted", "", "")),
        }
    });
    format!("http://{address}")
}

fn result(body: &Value, text: &str) -> String {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": body["id"], "result": {"content": content}}).to_string()
}

fn a_service_that_wants_a_pause_gets_it(home: &Home) {
    let url = fake(|number, body| match number {
        0 => Some(reply("429 Too Many Requests", "retry-after: 0\r\n", "")),
        1 => Some(reply("503 Service Unavailable", "retry-after: 0\r\n", "")),
        _ => Some(reply("200 OK", "", &result(body, &format!("call {number}")))),
    });
    let mcp = client(home, &url);
    assert_eq!(mcp.call("list_sandboxes", json!({})).text(), "call 2");
    end(mcp);
}

fn a_long_pause_is_told(home: &Home) {
    let body = r#"{"error":{"type":"rate_limited","message":"slow down"}}"#;
    let url = fake(move |number, _| match number {
        0 => Some(reply("429 Too Many Requests", "retry-after: 70\r\n", body)),
        _ => Some(reply("503 Service Unavailable", "", "")),
    });
    let mcp = client(home, &url);
    let told = mcp.call("list_sandboxes", json!({}));
    assert_eq!(told.code(), "rate_limited");
    assert!(told.text().contains("70 s") && told.text().contains("slow down"), "{}", told.text());
    // Without a word about when, it may have been taken by what stands before the service.
    assert_eq!(mcp.call("list_sandboxes", json!({})).code(), "unavailable");
    end(mcp);
}

fn nothing_is_sent_twice_that_may_have_been_taken(home: &Home) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let url = fake(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        None
    });
    let mcp = client(home, &url);
    let broken = mcp.call("run_code", json!({"code": "print(1)"}));
    assert_eq!(broken.code(), "unavailable");
    assert!(broken.text().contains("may have been done"), "{}", broken.text());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    end(mcp);
}

fn case_71_redirects_are_not_followed(home: &Home) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let other = scripted(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        None
    });
    let url = fake(move |_, _| {
        let location = format!("location: http://{other}/v1/mcp\r\n");
        Some(reply("307 Temporary Redirect", &location, ""))
    });
    let mcp = client(home, &url);
    let told = mcp.call("list_sandboxes", json!({}));
    assert_eq!(told.code(), "unavailable");
    assert!(told.text().contains("another address"), "{}", told.text());
    end(mcp);
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the key followed a redirect");
}

fn progress_comes_through(home: &Home) {
    let url = fake(|_, body| {
        let token = &body["params"]["_meta"]["progressToken"];
        assert!(token.is_number(), "{body}");
        let event = |message: &Value| format!("event: message\ndata: {message}\n\n");
        let progress = |token: &Value, done: f64| {
            let params = json!({"progressToken": token, "progress": done, "message": "on it"});
            event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        };
        let mut events = String::from(": hello\n\n");
        events += &progress(token, 1.0);
        events += &progress(token, 2.0);
        events += &format!("data: {}\n\n", result(body, "done"));
        Some(reply("200 OK", "content-type: text/event-stream\r\n", &events))
    });
    let mcp = client(home, &url);
    let params = json!({"name": "list_sandboxes", "_meta": {"progressToken": "mine"}});
    let id = mcp.request("tools/call", params);
    for done in [1.0, 2.0] {
        let heard = mcp.other("progress", |message| message["params"]["progressToken"] == "mine");
        assert_eq!(heard["method"], "notifications/progress");
        assert_eq!(heard["params"]["progress"], done, "{heard}");
        assert_eq!(heard["params"]["message"], "on it", "{heard}");
    }
    assert_eq!(mcp.finish(id).text(), "done");
    // Who did not ask hears nothing.
    assert_eq!(mcp.call("list_sandboxes", json!({})).text(), "done");
    assert_eq!(mcp.others_count(), 0);
    end(mcp);
}

fn what_is_no_service_is_said(home: &Home) {
    let nothing = scripted(|_, _| Some(reply("404 Not Found", "", "<h1>nginx</h1>")));
    let mcp = client(home, &format!("http://{nothing}/some/where"));
    let told = mcp.call("run_code", json!({"code": "print(1)"}));
    assert_eq!(told.code(), "unavailable");
    assert!(told.text().contains("HOLM_URL"), "{}", told.text());
    until("the log to say so", || {
        mcp.stderr().contains("does not list").then_some(()).or_else(|| {
            mcp.ask("tools/list", json!({}));
            None
        })
    });
    end(mcp);
    let noise = scripted(|_, _| Some("220 mail.example ESMTP\r\n".to_owned()));
    let mcp = client(home, &format!("http://{noise}"));
    assert_eq!(mcp.call("run_code", json!({"code": "print(1)"})).code(), "unavailable");
    end(mcp);
}
