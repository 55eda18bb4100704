//! Contexts of a service: over REST, and over its restart.

use rustix::process::Signal;

use super::place::install;
use crate::common::*;

as_root!(contexts_outlive_the_service);
as_rootless!(contexts_outlive_the_service);

const KEEP: [&str; 2] = ["--on-stop", "keep"];

fn contexts_outlive_the_service(home: &Home) {
    let mut serve = home.serve(&KEEP, &[]);
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({"timeout_minutes": 10}));
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let call = |tool: &str, arguments: Value| serve.call(&session, tool, arguments);
    if !install(&call, &id, false) {
        return;
    }
    let code = json!({"sandbox_id": id, "code": "x = 41"});
    assert_eq!(call("run_code", code).ok()["stateful"], json!(true));
    let path = format!("/v1/sandboxes/{id}");
    let other = serve.rest("POST", &format!("{path}/contexts"), &json!({"cwd": "/tmp"}));
    assert_eq!(other.status, 201, "{other:?}");
    let other = other.json()["context_id"].as_str().expect("an id").to_owned();
    serve.signal(Signal::KILL);
    serve.wait();
    let serve = home.serve(&KEEP, &[]);
    let run = |body: Value| {
        let ran = serve.rest("POST", &format!("{path}/run-code"), &body);
        assert_eq!(ran.status, 200, "{ran:?}");
        ran.json()
    };
    let ran = run(json!({"code": "print('text', flush=True)\nx + 1"}));
    assert_eq!((&ran["stateful"], &ran["variables_kept"]), (&json!(true), &json!(true)));
    let outputs = ran["outputs"].as_array().expect("a list");
    assert_eq!(outputs[0]["text"], "text\n");
    assert_eq!(
        (&outputs[1]["type"], &outputs[1]["data"]["text/plain"]),
        (&json!("result"), &json!("42"))
    );
    let ran = run(json!({"code": "import os; os.getcwd(); x", "context": other}));
    assert_eq!((&ran["raised"]["name"], &ran["exit_code"]), (&json!("NameError"), &json!(1)));
    let listed = serve.rest("GET", &format!("{path}/contexts"), &Value::Null).json();
    let ids: Vec<_> = listed["contexts"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["context_id"])
        .collect();
    assert_eq!(ids, ["python", &other]);
    let named = json!({"context_id": "python"});
    let restarted = serve.rest("POST", &format!("{path}/contexts/restart"), &named);
    assert_eq!(
        (restarted.status, &restarted.json()["state"]),
        (200, &json!("empty")),
        "{restarted:?}"
    );
    assert_eq!(run(json!({"code": "x"}))["raised"]["name"], "NameError");
    let which = format!("{path}/contexts?context_id={other}");
    assert_eq!(serve.rest("DELETE", &which, &Value::Null).status, 200);
    assert_eq!(serve.rest("DELETE", &which, &Value::Null).status, 404);
    assert_eq!(serve.rest("DELETE", &path, &Value::Null).status, 200);
    serve.end();
}
