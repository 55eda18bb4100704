//! A service with templates: what it lists, and that what runs keeps what it stands on.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::image::Image;
use crate::common::*;

as_root!(a_service_lists_and_uses_them, what_runs_is_held_over_a_crash);

fn a_service_lists_and_uses_them(home: &Home) {
    let mut image = Image::with_shell(home);
    image.says(json!({"Env": ["TOKEN=hidden"], "Cmd": ["serve"], "User": "0:0"}));
    image.import(home, "listed");
    let serve = home.serve(&["--template", "listed"], &[]);
    let list = serve.rest("GET", "/v1/templates", &Value::Null).json();
    let names: Vec<_> = list["templates"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["host", "listed"]);
    assert!(!list.to_string().contains("hidden"), "{list}");
    let one = serve.rest("GET", "/v1/templates/listed", &Value::Null).json();
    assert_eq!(one["config"]["env"], json!(["TOKEN"]));
    assert_eq!((&one["config"]["cmd"], &one["config"]["user"]), (&json!(["serve"]), &json!("0:0")));
    assert_eq!(one["layers"].as_array().unwrap().len(), 1);
    assert_eq!(serve.rest("GET", "/v1/templates/base", &Value::Null).json()["name"], "host");
    let none = serve.rest("GET", "/v1/templates/none", &Value::Null);
    assert_eq!((none.status, &none.json()["error"]["type"]), (404, &json!("template_unknown")));
    let made = serve.rest("POST", "/v1/sandboxes", &json!({})).json();
    assert_eq!(made["template"], "listed");
    let exec = format!("/v1/sandboxes/{}/exec", made["id"].as_str().unwrap());
    let done = serve.rest("POST", &exec, &json!({"command": "echo $TOKEN; id -u"})).json();
    assert_eq!(done["stdout"].as_str().map(str::trim), Some("hidden\n0"));
    let refused = serve.rest("POST", "/v1/sandboxes", &json!({"template": "none"}));
    assert_eq!(refused.status, 404);
    serve.end();
}

fn what_runs_is_held_over_a_crash(home: &Home) {
    Image::with_shell(home).import(home, "held");
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let made = serve.rest("POST", "/v1/sandboxes", &json!({"template": "held"})).json();
    let id = made["id"].as_str().unwrap().to_owned();
    let works = |serve: &Serve| {
        let body = json!({"command": "ls /bin/cat && cat /etc/hostname | wc -l"});
        let done = serve.rest("POST", &format!("/v1/sandboxes/{id}/exec"), &body).json();
        assert_eq!(done["exit_code"], 0, "{done}");
    };
    let in_use = || {
        let refused = home.holm(&["template", "rm", "held"]);
        assert_ne!(refused.code(), Some(0), "{}", refused.out());
        assert_eq!(home.holm(&["template", "prune"]).code(), Some(0));
    };
    works(&serve);
    in_use();
    serve.signal(Signal::KILL);
    serve.wait();
    let serve = home.serve(&["--on-stop", "end"], &[]);
    works(&serve);
    in_use();
    works(&serve);
    let gone = serve.rest("DELETE", &format!("/v1/sandboxes/{id}"), &Value::Null);
    assert_eq!(gone.status, 200, "{gone:?}");
    let removed = home.holm(&["template", "rm", "held"]);
    assert_eq!(removed.code(), Some(0), "{}", removed.err());
    serve.end();
}
