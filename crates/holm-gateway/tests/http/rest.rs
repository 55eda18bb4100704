//! REST: the way of a request, errors, callers.

use holm_engine::Rate;
use holm_gateway::http::Access;
use holm_gateway::http::access::Secret;
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Site, with_keys};
use crate::wire::Reply;
use crate::world::reaches;

const NEVER: &str = "sbx_0123456789abcdef01";

async fn made(site: &Site, key: &str, body: Value) -> String {
    let reply = site.rest("POST", "/v1/sandboxes", key, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    reply.json()["id"].as_str().expect("an id").to_owned()
}

fn is_error(reply: &Reply, status: u16, name: &str, part: &str) {
    let error = &reply.json()["error"];
    assert_eq!((reply.status, error["type"].as_str()), (status, Some(name)), "{reply:?}");
    assert!(error["message"].as_str().expect("a message").contains(part), "{reply:?}");
    assert!(error["suggestion"].as_str().is_some_and(|text| text.ends_with('.')), "{reply:?}");
    assert_eq!(error["request_id"].as_str(), reply.header("x-request-id"), "{reply:?}");
}

#[test]
fn a_sandbox_lives_from_create_to_destroy() {
    run(async {
        let site = Site::new().await;
        let wanted = json!({"name": "web", "timeout_minutes": 5, "metadata": {"a": "b"}});
        let reply = site.rest("POST", "/v1/sandboxes", "", wanted).await;
        assert_eq!(reply.status, 201);
        let sandbox = reply.json();
        let expected = json!({"name": "web", "status": "running", "metadata": {"a": "b"}});
        assert_matches(&sandbox, expected);
        let id = sandbox["id"].as_str().expect("an id");
        for spelling in [id, id.trim_start_matches("sbx_")] {
            let got = site.rest("GET", &format!("/v1/sandboxes/{spelling}"), "", Value::Null).await;
            assert_eq!((got.status, &got.json()["id"]), (200, &json!(id)));
        }
        let path = format!("/v1/sandboxes/{id}/exec");
        let ran = site.rest("POST", &path, "", json!({"command": "echo hi"})).await;
        let expected = json!({"exit_code": 0, "stdout": "hi\n", "sandbox_id": id});
        assert_matches(&ran.json(), expected);
        let failed = site.rest("POST", &path, "", json!({"command": "fail oh"})).await;
        assert_eq!(failed.status, 200);
        assert_matches(&failed.json(), json!({"exit_code": 3, "stderr": "oh\n"}));
        let code = json!({"code": "print(1)", "language": "bash"});
        let ran = site.rest("POST", &format!("/v1/sandboxes/{id}/run-code"), "", code).await;
        assert_matches(&ran.json(), json!({"exit_code": 0, "language": "bash", "stateful": false}));
        let path = format!("/v1/sandboxes/{id}/extend");
        let extended = site.rest("POST", &path, "", json!({"additional_minutes": 60})).await;
        assert!(extended.json()["expires_at"].as_str() > sandbox["expires_at"].as_str());
        let path = format!("/v1/sandboxes/{id}");
        for already in [false, true] {
            let gone = site.rest("DELETE", &path, "", Value::Null).await;
            let expected = json!({"already_destroyed": already, "ended_reason": "destroyed"});
            assert_matches(&gone.json(), expected);
        }
        let got = site.rest("GET", &path, "", Value::Null).await;
        assert_matches(&got.json(), json!({"status": "deleted", "ended_reason": "destroyed"}));
        let path = format!("{path}/exec");
        let gone = site.rest("POST", &path, "", json!({"command": "true"})).await;
        is_error(&gone, 410, "sandbox_gone", "destroyed");
        assert_eq!(gone.json()["error"]["ended_reason"], "destroyed");
    });
}

#[test]
fn lists_are_newest_first_and_go_on_at_their_cursor() {
    run(async {
        let site = Site::new().await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.insert(0, made(&site, "", Value::Null).await);
        }
        let ids_of = |page: &Value| -> Vec<String> {
            let list = page["sandboxes"].as_array().expect("a list");
            list.iter().map(|one| one["id"].as_str().expect("an id").to_owned()).collect()
        };
        let list = async |query: &str| {
            site.rest("GET", &format!("/v1/sandboxes{query}"), "", Value::Null).await
        };
        let first = list("?limit=2").await.json();
        assert_eq!(ids_of(&first), ids[..2]);
        let cursor = first["next_cursor"].as_str().expect("more");
        let second = list(&format!("?limit=2&cursor={cursor}")).await.json();
        assert_eq!((ids_of(&second), &second["next_cursor"]), (ids[2..].to_vec(), &Value::Null));
        site.rest("DELETE", &format!("/v1/sandboxes/{}", ids[1]), "", Value::Null).await;
        assert_eq!(ids_of(&list("").await.json()), [ids[0].clone(), ids[2].clone()]);
        assert_eq!(ids_of(&list("?include_deleted=true").await.json()), ids);
        is_error(&list("?cursor=x").await, 400, "invalid_request", "`cursor`");
        is_error(&list("?limit=0").await, 400, "invalid_request", "`limit`");
        is_error(&list("?limit=1&limit=2").await, 400, "invalid_request", "twice");
        is_error(&list("?other=2").await, 400, "invalid_request", "`other`");
    });
}

#[test]
fn case_63_lifetimes_are_refused_with_what_is_allowed() {
    run(async {
        let site = Site::new().await;
        let id = made(&site, "", Value::Null).await;
        let extend = format!("/v1/sandboxes/{id}/extend");
        for wrong in [json!(0), json!(-1), json!("60"), json!(0.5), json!(1e12), json!(1441)] {
            for (path, name) in
                [("/v1/sandboxes", "timeout_minutes"), (extend.as_str(), "additional_minutes")]
            {
                let reply = site.rest("POST", path, "", json!({name: wrong})).await;
                is_error(&reply, 400, "invalid_request", &format!("`{name}`: invalid"));
                is_error(&reply, 400, "invalid_request", "from 1 to 1440");
            }
        }
        let both = json!({"timeout_minutes": 1, "timeout_seconds": 60});
        let reply = site.rest("POST", "/v1/sandboxes", "", both).await;
        is_error(&reply, 400, "invalid_request", "`timeout_seconds`");
        // Null is what is left out: the default, which the answer shows.
        let made = site.rest("POST", "/v1/sandboxes", "", json!({"timeout_minutes": null})).await;
        assert_eq!(made.status, 201);
        assert!(made.json()["expires_at"].as_str() > made.json()["ready_at"].as_str());
    });
}

#[test]
fn wrong_requests_are_answered_as_what_they_are() {
    run(async {
        let site = Site::new().await;
        let id = made(&site, "", Value::Null).await;
        let exec = format!("/v1/sandboxes/{id}/exec");
        let send = async |method: &str, path: &str, body: &str| {
            site.ask(method, path, &[("content-type", "application/json")], body.as_bytes()).await
        };
        let invalid = "invalid_request";
        is_error(&send("GET", "/v1/nothing", "").await, 404, "not_found", "/v1/nothing");
        is_error(&send("GET", "/v1", "").await, 404, "not_found", "/v1");
        is_error(&send("GET", "/v1/sandboxes/", "").await, 404, "not_found", "");
        let wrong = send("PATCH", "/v1/sandboxes", "").await;
        is_error(&wrong, 405, "method_not_allowed", "POST, GET");
        assert_eq!(wrong.header("allow"), Some("POST, GET"));
        is_error(&send("POST", &exec, "{").await, 400, invalid, "EOF");
        is_error(&send("POST", &exec, "[]").await, 400, invalid, "JSON object");
        is_error(&send("POST", &exec, "{}").await, 400, invalid, "`command`");
        is_error(&send("POST", &exec, r#"{"command":1}"#).await, 400, invalid, "`command`");
        is_error(&send("POST", &exec, r#"{"command":" "}"#).await, 400, invalid, "command");
        is_error(&send("POST", &exec, r#"{"command":"a","x":1}"#).await, 400, invalid, "`x`");
        let kind = [("content-type", "text/plain")];
        let plain = site.ask("POST", &exec, &kind, br#"{"command":"a"}"#).await;
        is_error(&plain, 415, invalid, "application/json");
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(9 << 20));
        is_error(&send("POST", &exec, &long).await, 413, "too_large", "size limit");
        is_error(&send("GET", "/v1/sandboxes/x", "").await, 400, invalid, "sandbox_id");
        let unknown = send("GET", &format!("/v1/sandboxes/{NEVER}"), "").await;
        is_error(&unknown, 404, "not_found", NEVER);
        let template = json!({"template": "nope"});
        let unknown = site.rest("POST", "/v1/sandboxes", "", template).await;
        is_error(&unknown, 404, "template_unknown", "base");
    });
}

#[test]
fn keys_decide_who_may_ask_and_some_things_need_none() {
    run(async {
        let site = Site::with(with_keys).await;
        let (_, key) = site.key().await;
        for path in ["/v1/service-info", "/v1/openapi.json"] {
            assert_eq!(site.rest("GET", path, "", Value::Null).await.status, 200, "{path}");
            let wrong = site.rest("GET", path, "holm_sk_wrong", Value::Null).await;
            is_error(&wrong, 401, "unauthorized", "key");
        }
        let keyless = site.rest("POST", "/v1/sandboxes", "", json!({})).await;
        is_error(&keyless, 401, "unauthorized", "key");
        assert!(keyless.header("www-authenticate").is_some());
        let two = [("x-api-key", key.as_str()), ("authorization", "Bearer other")];
        let two = site.ask("GET", "/v1/usage", &two, b"").await;
        is_error(&two, 400, "invalid_request", "two different keys");
        let bearer = format!("Bearer {key}");
        let usage = site.ask("GET", "/v1/usage", &[("authorization", &bearer)], b"").await;
        assert_eq!(usage.status, 200);
        let token = Site::with(|setup| setup.access = Access::Token(Secret::new("t"))).await;
        assert_eq!(token.rest("GET", "/v1/service-info", "", Value::Null).await.status, 200);
        assert_eq!(token.rest("GET", "/v1/usage", "", Value::Null).await.status, 401);
        assert_eq!(token.rest("GET", "/v1/usage", "t", Value::Null).await.status, 200);
    });
}

#[test]
fn case_71_a_key_in_the_address_is_refused_and_not_repeated() {
    run(async {
        let site = Site::with(with_keys).await;
        let (_, key) = site.key().await;
        for name in ["api_key", "token", "x-api-key"] {
            let path = format!("/v1/sandboxes?{name}={key}");
            let reply = site.rest("GET", &path, &key, Value::Null).await;
            is_error(&reply, 400, "invalid_request", "address");
            assert!(!String::from_utf8_lossy(&reply.body).contains(&key));
        }
    });
}

#[test]
fn case_69_what_is_somebody_elses_looks_like_what_does_not_exist() {
    run(async {
        let site = Site::with(with_keys).await;
        let ((_, a), (_, b)) = (site.key().await, site.key().await);
        let theirs = made(&site, &a, json!({})).await;
        for (method, below, body) in [
            ("GET", "", Value::Null),
            ("DELETE", "", Value::Null),
            ("POST", "/extend", json!({})),
            ("POST", "/exec", json!({"command": "echo hi"})),
            ("POST", "/run-code", json!({"code": "1"})),
        ] {
            let ask = async |id: &str| {
                let path = format!("/v1/sandboxes/{id}{below}");
                let reply = site.rest(method, &path, &b, body.clone()).await;
                let mut error = reply.json()["error"].clone();
                error["request_id"] = Value::Null;
                (reply.status, error.to_string().replace(id, "ID"))
            };
            let foreign = ask(&theirs).await;
            assert_eq!(foreign, ask(NEVER).await, "{method} {below}");
            assert_eq!(foreign.0, 404, "{method} {below}");
        }
        for path in ["/v1/sandboxes?include_deleted=true", "/v1/usage"] {
            let seen = site.rest("GET", path, &b, Value::Null).await;
            assert!(!String::from_utf8_lossy(&seen.body).contains(&theirs), "{path}");
        }
    });
}

#[test]
fn case_86_foreign_pages_and_names_are_refused_before_anything_else() {
    run(async {
        let site = Site::with(with_keys).await;
        for (name, value, status) in [
            ("origin", "http://evil.example", 403),
            ("origin", "null", 403),
            ("host", "evil.example", 403),
            ("origin", "https://app.example", 401),
        ] {
            for (method, path) in [("GET", "/v1/usage"), ("POST", "/v1/sandboxes")] {
                let reply = site.ask(method, path, &[(name, value)], b"").await;
                assert_eq!(reply.status, status, "{method} {path} {name}: {value}");
            }
        }
    });
}

#[test]
fn an_idempotency_key_makes_two_creates_one() {
    run(async {
        let site = Site::new().await;
        let create = async |key: &str, body: &str| {
            let headers = [("idempotency-key", key), ("content-type", "application/json")];
            site.ask("POST", "/v1/sandboxes", &headers, body.as_bytes()).await
        };
        let one = create("first", r#"{"name":"a"}"#).await;
        let again = create("first", r#"{"name":"a"}"#).await;
        assert_eq!((one.status, &one.json()["id"]), (201, &again.json()["id"]));
        let other = create("first", r#"{"name":"b"}"#).await;
        is_error(&other, 409, "conflict", "");
        is_error(&create("a b", "{}").await, 400, "invalid_request", "idempotency key");
        assert_eq!(*site.world.alive.borrow(), 1);
    });
}

#[test]
fn case_58_a_create_whose_caller_went_away_leaves_nothing() {
    run(async {
        let site = Site::new().await;
        site.world.may_create.send_replace(false);
        let wire = site.sent("POST", "/v1/sandboxes", &[], b"").await;
        reaches(&site.world.creating, 1).await;
        drop(wire);
        reaches(&site.world.creating, 0).await;
        site.world.may_create.send_replace(true);
        reaches(&site.world.alive, 0).await;
        let listed = site.rest("GET", "/v1/sandboxes", "", Value::Null).await;
        assert_eq!(listed.json()["sandboxes"], json!([]));
    });
}

#[test]
fn a_command_ends_when_its_caller_goes_away() {
    run(async {
        let site = Site::new().await;
        let id = made(&site, "", Value::Null).await;
        let path = format!("/v1/sandboxes/{id}/exec");
        let wire = site.sent("POST", &path, &[], br#"{"command":"hang"}"#).await;
        reaches(&site.world.running, 1).await;
        drop(wire);
        reaches(&site.world.running, 0).await;
    });
}

#[test]
fn case_59_calls_in_flight_end_with_their_sandbox() {
    run(async {
        let site = Site::new().await;
        let id = made(&site, "", Value::Null).await;
        let path = format!("/v1/sandboxes/{id}");
        let mut wire =
            site.sent("POST", &format!("{path}/exec"), &[], br#"{"command":"hang"}"#).await;
        reaches(&site.world.running, 1).await;
        assert_eq!(site.rest("DELETE", &path, "", Value::Null).await.status, 200);
        is_error(&wire.reply().await, 410, "sandbox_gone", "destroyed");
    });
}

#[test]
fn on_the_way_down_nothing_new_is_taken_and_what_runs_is_told() {
    run(async {
        let mut site =
            Site::with(|setup| setup.limits.stop_grace = std::time::Duration::ZERO).await;
        let id = made(&site, "", Value::Null).await;
        let path = format!("/v1/sandboxes/{id}/exec");
        let mut wire = site.sent("POST", &path, &[], br#"{"command":"hang"}"#).await;
        reaches(&site.world.running, 1).await;
        site.stop();
        let told = wire.reply().await;
        is_error(&told, 503, "unavailable", "going down");
        assert!(told.header("retry-after").is_some());
        site.ended().await;
    });
}

#[test]
fn every_documented_path_is_answered_with_a_documented_status() {
    run(async {
        statuses_are_documented(&Site::new().await, "").await;
    });
}

#[test]
fn every_documented_path_says_that_a_key_has_a_rate() {
    run(async {
        // Nothing comes back while the test runs.
        let site = Site::with(|setup| {
            setup.rebuild(|settings| settings.key_rate = Rate { per_second: 1e-6, burst: 1 });
            with_keys(setup);
        })
        .await;
        let (_, key) = site.key().await;
        assert_eq!(site.rest("GET", "/v1/sandboxes", &key, Value::Null).await.status, 200);
        let seen = statuses_are_documented(&site, &key).await;
        assert!(seen.iter().all(|status| *status == 429), "{seen:?}");
    });
}

/// Asks for everything that the document has; gives what was answered.
async fn statuses_are_documented(site: &Site, key: &str) -> Vec<u16> {
    let document = site.rest("GET", "/v1/openapi.json", "", Value::Null).await.json();
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 5);
    let mut seen = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let path = path
                .replace("{sandbox_id}", NEVER)
                .replace("{account_id}", "acc_0123456789abcdef01")
                .replace("{key_id}", "key_0123456789abcdef01");
            let method = method.to_ascii_uppercase();
            let reply = site.rest(&method, &path, key, Value::Null).await;
            let documented = &operation["responses"][reply.status.to_string()];
            assert!(!documented.is_null(), "{method} {path}: {}", reply.status);
            let kind = reply.header("content-type").expect("a content type");
            assert!(documented["content"][kind].is_object(), "{method} {path}: {kind}");
            if reply.status == 429 {
                assert!(reply.header("retry-after").is_some(), "{method} {path}: {reply:?}");
                assert!(documented["headers"]["Retry-After"].is_object(), "{method} {path}");
            }
            seen.push(reply.status);
        }
    }
    seen
}
