//! What agents do with a network: a fresh clone, its dependencies, its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bed::*;
use crate::common::*;

on_beds!(Root, root: a_bug_is_reproduced_in_a_clean_checkout);

/// The packages that the checkout needs, as an index elsewhere has them; fetched once, by the
/// machine's own means.
fn wheels() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workflow-wheels");
    if !place.join("ready").exists() {
        // From the network of this process's first thread, the machine's: this one is elsewhere.
        let network = format!("--net=/proc/{}/ns/net", std::process::id());
        let script = "set -e; rm -rf \"$1\"; mkdir -p \"$1\"; python3 -m venv \"$1/loader\"; \
            \"$1/loader/bin/pip\" -q --disable-pip-version-check download --only-binary :all: \
            -d \"$1/wheels\" setuptools==80.9.0 pytest==8.4.2; touch \"$1/ready\"";
        let mut command = Command::new("nsenter");
        command.args([&network, "sh", "-c", script, "sh"]).arg(&place);
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
        let done = command.output().expect("nsenter");
        if !done.status.success() {
            println!("SKIP the workflow of a clean checkout: no packages to be had here");
            return None;
        }
    }
    Some(place.join("wheels"))
}

/// A repository whose tests need what only its author's machine has.
const REPOSITORY: &str = r#"set -e
mkdir -p acme w/widget w/tests
cd w
cat >pyproject.toml <<'X'
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "widget"
version = "1.0"
[project.optional-dependencies]
test = ["pytest"]
[tool.setuptools]
packages = ["widget"]
X
printf 'import os\n\ndef zone():\n    return os.environ["TZ"]\n' >widget/__init__.py
printf 'import widget\n\ndef test_sum():\n    assert 1 + 1 == 2\n\ndef test_zone():\n    assert widget.zone() == "UTC"\n' >tests/test_widget.py
git init -q -b main
git add .
git -c user.name=t -c user.email=t@bed.test commit -qm 'A widget'
git clone -q --bare . ../acme/widget.git
"#;

fn a_bug_is_reproduced_in_a_clean_checkout(home: &Home, bed: &Bed) {
    let Some(wheels) = wheels() else { return };
    let repositories = home.dir.join("repositories");
    std::fs::create_dir(&repositories).expect("a directory");
    let made = Command::new("sh").args(["-c", REPOSITORY]).current_dir(&repositories).output();
    let made = made.expect("git");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    bed.internet.repositories.serve(&repositories);
    bed.internet.repositories.serve_files(&wheels);
    // The name of the printed command leads to the testbed.
    bed.internet.dns.name("github.com", &[Data::A(SITE4), Data::Aaaa(SITE6)]);

    let mcp = home.mcp();
    let env = json!({
        "GIT_SSL_CAINFO": "/workspace/ca.pem", "PIP_CERT": "/workspace/ca.pem",
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "https://site.bed.test/files/",
    });
    let made =
        mcp.call("create_sandbox", json!({"size": "medium", "timeout_minutes": 60, "env": env}));
    made.ok();
    let authority = authority_pem().expect("a certificate");
    mcp.call("write_file", json!({"path": "ca.pem", "content": authority})).ok();
    let run = |arguments: Value| mcp.call("run_command", arguments).run();
    run(json!({
        "command": "git clone --depth 1 https://github.com/acme/widget.git /workspace/w",
        "timeout_ms": 180_000
    }))
    .good();
    run(json!({
        "cwd": "/workspace/w",
        "command": "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'",
        "timeout_ms": 300_000
    }))
    .good();
    let tested = run(json!({
        "cwd": "/workspace/w",
        "command": ".venv/bin/pytest -x -q 2>&1 | tail -c 20000",
        "timeout_ms": 600_000
    }));
    let said = tested.good();
    assert!(said.contains("1 failed, 1 passed") && said.contains("KeyError: 'TZ'"), "{said}");
    // The reason that was found is one: with it the tests pass.
    let mended = run(json!({
        "cwd": "/workspace/w", "command": ".venv/bin/pytest -q", "env": {"TZ": "UTC"}, "timeout_ms": 600_000
    }));
    assert!(mended.good().contains("2 passed"), "{mended:?}");
    mcp.call("destroy_sandbox", json!({})).ok();
    let cloned = bed
        .internet
        .seen
        .requests()
        .iter()
        .any(|request| request.path.starts_with("/acme/widget.git/"));
    assert!(cloned, "{:?}", bed.internet.seen.requests());
    mcp.end(home);
}
