//! The usual package managers through the gate, against the registries that this machine is set up
//! for, whatever these are. Skipped where the machine itself does not reach them.

use std::process::Command;

use crate::common::*;

as_root!(case_110_packages_by_name);

/// Whether a client on this machine gets it.
fn reached(what: &str, script: &str) -> bool {
    let reached =
        Command::new("sh").args(["-c", script]).output().is_ok_and(|out| out.status.success());
    if !reached {
        println!("SKIP {what} through the gate: this machine does not get there itself");
    }
    reached
}

/// What the machine tells its clients where to look; the sandbox has no reason to know it.
fn settings() -> Value {
    let mut env = serde_json::Map::new();
    for (name, value) in std::env::vars() {
        let is_place =
            ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "NPM_CONFIG_REGISTRY", "npm_config_registry"]
                .contains(&name.as_str());
        if is_place {
            env.insert(name, value.into());
        }
    }
    Value::Object(env)
}

fn case_110_packages_by_name(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"env": settings()}));
    let patiently = || json!({"timeout_ms": 200_000});
    let temporary = home.dir.join("fetched");
    let fetch = format!(
        "python3 -m venv {0} && {0}/bin/pip -q --disable-pip-version-check download --no-deps -d {0}/x six==1.17.0",
        temporary.display()
    );
    if reached("pip install", &fetch) {
        let run = mcp.sh_with(&sandbox, "python3 -m venv v && v/bin/pip install -q six==1.17.0 && v/bin/python -c 'import six; print(six.__version__)'", patiently());
        assert_eq!(run.good(), "1.17.0");
    }
    if reached("npm install", "npm view --silent is-number@7.0.0 version") {
        let run = mcp.sh_with(&sandbox, "npm install --silent --no-audit --no-fund is-number@7.0.0 && node -p 'require(\"is-number\")(5)'", patiently());
        assert!(run.good().ends_with("true"), "{run:?}");
    }
    let root = home.users().contains(&"root");
    let lists = home.dir.join("lists");
    let update = format!(
        "mkdir -p {0}/partial && apt-get update -qq -o Dir::State::Lists={0} -o APT::Sandbox::User=root",
        lists.display()
    );
    if root && reached("apt-get update", &update) {
        let run = mcp.sh_with(
            &sandbox,
            "apt-get update 2>&1",
            json!({"timeout_ms": 200_000, "user": "root"}),
        );
        let said = run.good();
        assert!(said.contains("Reading package lists") && !said.contains("Err:"), "{said}");
        let known = mcp.sh_with(
            &sandbox,
            "apt-cache policy hello | grep -c Candidate",
            json!({"user": "root"}),
        );
        assert_eq!(known.good(), "1");
    }
    mcp.end(home);
}
