//! Installing packages where there is no network.

use crate::common::*;

as_root!(case_110_local_installs, case_110_installs_by_name_fail_at_once);
as_rootless!(case_110_local_installs, case_110_installs_by_name_fail_at_once);

/// A wheel of one module, made without any tool.
const WHEEL: &str = r#"
import zipfile, base64, hashlib
files = {'islet.py': 'VALUE = 42\n',
  'islet-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: islet\nVersion: 1.0\n',
  'islet-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n'}
def row(n, t): return n + ',sha256=' + base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).decode().rstrip('=') + ',' + str(len(t))
record = '\n'.join(row(n, t) for n, t in files.items()) + '\nislet-1.0.dist-info/RECORD,,\n'
with zipfile.ZipFile('islet-1.0-py3-none-any.whl', 'w') as z:
  for n, t in files.items(): z.writestr(n, t)
  z.writestr('islet-1.0.dist-info/RECORD', record)
"#;

/// An archive as `npm pack` makes it.
const ARCHIVE: &str = r#"
import io, tarfile
with tarfile.open('islet-1.0.0.tgz', 'w:gz') as t:
  for n, x in (('package.json', '{"name": "islet", "version": "1.0.0"}'), ('index.js', 'module.exports = 42')):
    i = tarfile.TarInfo('package/' + n); i.size = len(x); t.addfile(i, io.BytesIO(x.encode()))
"#;

fn has(mcp: &Mcp, sandbox: &str, command: &str) -> bool {
    let there = mcp.sh(sandbox, command).exit_code == 0;
    if !there {
        println!("SKIP part of case 110: the template fails at `{command}`");
    }
    there
}

fn patiently() -> Value {
    json!({"timeout_ms": 200_000})
}

fn case_110_local_installs(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    if has(&mcp, &sandbox, "python3 -m pip --version") {
        mcp.write(&sandbox, "wheel.py", WHEEL);
        mcp.sh(&sandbox, "python3 wheel.py").good();
        mcp.sh_with(&sandbox, "python3 -m pip install --no-index --user --break-system-packages ./islet-1.0-py3-none-any.whl || \
            python3 -m pip install --no-index --user ./islet-1.0-py3-none-any.whl", patiently()).good();
        let used = mcp.sh(&sandbox, "python3 -c 'import islet; print(islet.VALUE)'");
        assert_eq!(used.good(), "42", "it lasts");
    }
    if has(&mcp, &sandbox, "npm --version") {
        mcp.write(&sandbox, "archive.py", ARCHIVE);
        mcp.sh(&sandbox, "python3 archive.py").good();
        mcp.sh_with(&sandbox, "npm install ./islet-1.0.0.tgz", patiently()).good();
        let used = mcp.sh(&sandbox, "node -p 'require(\"islet\")'");
        assert_eq!(used.good(), "42", "it lasts");
    }
    let full = mcp.sh(&sandbox, "python3 -c 'import venv, ensurepip'").exit_code == 0;
    let form = if full { "" } else { "--without-pip" };
    let made =
        format!("python3 -m venv {form} v && v/bin/python -c 'import sys; print(sys.prefix)'");
    assert_eq!(mcp.sh_with(&sandbox, &made, patiently()).good(), "/workspace/v");
    certificates_are_there(&mcp, &sandbox);
    mcp.end(home);
}

/// As many authorities as the host trusts, for every program that looks where they usually are.
fn certificates_are_there(mcp: &Mcp, sandbox: &str) {
    let host = std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
    let count = host.matches("BEGIN CERTIFICATE").count();
    if count == 0 {
        println!("SKIP part of case 110: this host has no certificates (ca-certificates)");
        return;
    }
    let listed = mcp.sh(sandbox, "grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt");
    assert_eq!(listed.good(), count.to_string());
    let loaded =
        "python3 -c 'import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 0)'";
    assert_eq!(mcp.sh(sandbox, loaded).good(), "True");
    // Each by its link, as programs with a directory of certificates find them.
    let links =
        "cd /etc/ssl/certs && for l in *.0; do test -s \"$l\" || echo \"$l\"; done; ls *.0 | wc -l";
    let found = mcp.sh(sandbox, links);
    let found: usize = found.good().parse().expect("no broken link, and a number");
    assert!(found > 0, "{found} links");
}

/// That they do not wait is told by what they say: no second attempt, which is what takes the time.
fn case_110_installs_by_name_fail_at_once(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"network": "none"}));
    if has(&mcp, &sandbox, "npm --version") {
        let npm = "npm install --loglevel http left-pad";
        let run = mcp.sh_with(&sandbox, npm, patiently());
        assert!(run.exit_code != 0 && !run.timed_out, "{run:?}");
        assert!(run.stderr.contains("attempt 1 failed"), "{run:?}");
        assert!(!run.stderr.contains("attempt 2"), "{run:?}");
        assert!(run.stderr.contains("getaddrinfo"), "it says why: {run:?}");
        // Who sets it gets it.
        let asked = "npm config get fetch-retries";
        assert_eq!(mcp.sh(&sandbox, asked).good(), "0");
        let own = json!({"env": {"npm_config_fetch_retries": "4"}});
        assert_eq!(mcp.sh_with(&sandbox, asked, own).good(), "4", "a command's own");
        let other =
            mcp.create_with(json!({"network": "none", "env": {"NPM_CONFIG_FETCH_RETRIES": "5"}}));
        assert_eq!(mcp.sh(&other, asked).good(), "5", "a sandbox's own");
    }
    if has(&mcp, &sandbox, "python3 -m pip --version") {
        let pip = "python3 -m pip install --user --break-system-packages no-such-thing-here";
        let run = mcp.sh_with(&sandbox, pip, patiently());
        assert!(run.exit_code != 0 && !run.timed_out, "{run:?}");
        let attempts = run.stderr.matches("Retrying").count();
        assert!(attempts <= 1, "{attempts} more attempts: {run:?}");
        assert!(run.stderr.contains("connection"), "it says why: {run:?}");
    }
    // The gate has to take a connection before it can reset it, so that `connect` may succeed.
    let names = "import socket
for target in (('192.0.2.1', 80), ('example.org', 80), ('169.254.169.254', 80)):
  try: s = socket.create_connection(target, 200)
  except OSError: print('refused'); continue
  try: s.recv(1); print('connected')
  except ConnectionResetError: print('refused')
";
    let code = json!({"sandbox_id": sandbox, "code": names, "timeout_ms": 200_000});
    let run = mcp.call("run_code", code).run();
    assert_eq!(run.good(), "refused\nrefused\nrefused", "a clear failure and no waiting");
    mcp.end(home);
}
