//! Death by memory: whole answers and streams tell it as MCP does.

use super::Rest;
use crate::common::{Home, Value, as_root, json};

as_root!(case_98_death_by_memory_is_said_over_rest);

/// Fills memory past any limit of this test; touched page by page.
const HOG: &str = "import sys\nx = []\nwhile True: x.append(b'x' * (64 << 20))\n";

fn case_98_death_by_memory_is_said_over_rest(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let memory = sandbox.ask("GET", "", &Value::Null).json()["memory_mb"].as_u64().expect("memory");
    let write = json!({"path": "hog.py", "content": HOG});
    assert_eq!(sandbox.ask("PUT", "/files", &write).status, 200);
    let survived = format!(
        "while it ran, a process of the sandbox was killed because the sandbox reached its memory \
         limit of {memory} MiB"
    );
    for (command, exit_code, note) in [
        ("python3 hog.py; echo rc=$?", 0, survived.clone()),
        ("python3 hog.py || exit 3", 3, survived),
        (
            "exec python3 hog.py",
            137,
            format!("killed because the sandbox reached its memory limit of {memory} MiB"),
        ),
    ] {
        let whole =
            sandbox.ask("POST", "/exec", &json!({"command": command, "timeout_ms": 200_000}));
        assert_eq!(whole.status, 200, "{whole:?}");
        let body = json!({"command": command, "timeout_ms": 200_000, "stream": true});
        let (last, followed) = sandbox.follow(&body).pop().expect("an end");
        assert_eq!(last, "exit");
        for end in [whole.json(), followed] {
            assert_eq!(end["exit_code"], json!(exit_code), "{command}: {end}");
            assert_eq!(end["out_of_memory"], json!(true), "{command}: {end}");
            assert_eq!(end["note"], json!(note), "{command}");
        }
    }
    serve.end();
}
