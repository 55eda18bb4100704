//! What every client relies on: the documented endpoints and examples, and the end.

use super::{Rest, error_is};
use crate::common::{Home, Value, as_root, at_once, json};

as_root!(
    case_60_destroying_again_is_answered,
    case_92_every_documented_endpoint_is_there,
    the_documented_examples_work,
);

fn case_60_destroying_again_is_answered(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let answers = at_once(20, |_| {
        let answer = sandbox.ask("DELETE", "", &Value::Null);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    });
    let real = answers.iter().filter(|answer| answer["already_destroyed"] == json!(false)).count();
    assert_eq!(real, 1, "{answers:?}");
    assert_eq!(sandbox.ask("DELETE", "", &Value::Null).status, 200);
    let never = serve.ask("DELETE", "/v1/sandboxes/sbx_0123456789abcdef01", &[], "");
    error_is(&never, 404, "not_found");
    serve.end();
}

fn case_92_every_documented_endpoint_is_there(home: &Home) {
    let serve = home.serve(&[], &[]);
    let document = serve.ask("GET", "/v1/openapi.json", &[("x-none", "")], "").json();
    let committed = include_str!("../../../../../openapi/v1.json");
    assert!(document == serde_json::from_str::<Value>(committed).expect("JSON"));
    let info = serve.ask("GET", "/v1/service-info", &[], "").json();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let names: Vec<&str> = info["enforced"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|name| name.as_str().expect("a name"))
        .collect();
    let sandbox = Rest::new(&serve, &json!({"size": "small"}));
    let made = sandbox.ask("GET", "", &Value::Null).json();
    assert!(made["enforced"].as_array().expect("a list").iter().all(|layer| {
        let layer = layer.as_str().expect("a name");
        names.contains(&layer)
            || !made["missing"].as_array().expect("a list").contains(&json!(layer))
    }));
    assert_eq!(made["memory_mb"], info["sizes"]["small"]["memory_mb"]);
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let path = path
            .replace("{sandbox_id}", "sbx_0123456789abcdef01")
            .replace("{account_id}", "acc_0123456789abcdef01")
            .replace("{key_id}", "key_0123456789abcdef01");
        for (method, operation) in methods.as_object().expect("methods") {
            let answer = serve.rest(&method.to_ascii_uppercase(), &path, &Value::Null);
            let status = answer.status.to_string();
            assert!(operation["responses"][&status].is_object(), "{method} {path}: {answer:?}");
            assert!(status != "405" && status != "500", "{method} {path}: {answer:?}");
        }
    }
    serve.end();
}

/// The blocks of the page, one after the other in one shell, as a reader would paste them.
fn the_documented_examples_work(home: &Home) {
    let serve = home.serve(&[], &[]);
    let page = include_str!("../../../../../docs/rest.md");
    let blocks: Vec<&str> = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("an end"))
        // Where the reader's own service listens.
        .filter(|block| !block.starts_with("export HOLM_URL"))
        .collect();
    assert!(blocks.len() > 6, "{}", blocks.len());
    let script = format!("set -e\n{}", blocks.concat());
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(&home.dir)
        .env("HOLM_URL", format!("http://{}", serve.address))
        .env("HOLM_API_KEY", serve.key.as_deref().expect("a key"))
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["\"stdout\":\"hello\\n\"", "\"stdout\":\"42\\n\"", "event: exit", "a,b\\n1,2"] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
    serve.end();
}
