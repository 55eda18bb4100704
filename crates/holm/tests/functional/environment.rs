//! Language runtimes and the environment that programs find.

use crate::common::*;

as_root!(
    case_104_partial_output_of_python,
    case_105_after_timed_out_code,
    case_107_plots_are_said_to_be_missing,
    case_108_home_locale_and_variables,
    case_110_local_installs_and_no_network,
    case_111_containers_and_init_fail_clearly,
    languages_of_run_code,
);
as_rootless!(
    case_104_partial_output_of_python,
    case_108_home_locale_and_variables,
    case_110_local_installs_and_no_network
);

fn case_104_partial_output_of_python(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let run = mcp.sh_with(
        &sandbox,
        "python3 -c \"import time;print('hello');time.sleep(3000)\"",
        json!({"timeout_ms": 3000}),
    );
    assert!(run.timed_out, "{run:?}");
    assert_eq!(run.stdout, "hello\n");
    let code = json!({"sandbox_id": sandbox, "code": "import time\nprint('hello')\ntime.sleep(3000)", "timeout": 2});
    let run = mcp.call("run_code", code).run();
    assert!(run.timed_out && run.stdout == "hello\n", "{run:?}");
    mcp.end(home);
}

fn case_105_after_timed_out_code(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for code in [
        "while True: pass",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        "import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        "import subprocess; subprocess.run(['sleep', '6000'])",
        "x = 7 ** (10 ** 8)",
    ] {
        let run = mcp
            .call("run_code", json!({"sandbox_id": sandbox, "code": code, "timeout_ms": 1500}))
            .run();
        assert!(run.timed_out, "{code}: {run:?}");
        assert_eq!(run.data["stateful"], json!(false), "it says that no state is kept");
        let state = mcp.call("run_code", json!({"sandbox_id": sandbox, "code": "x"})).run();
        assert!(state.stderr.contains("NameError"), "{state:?}");
        assert_eq!(
            mcp.call("run_code", json!({"sandbox_id": sandbox, "code": "print(1+1)"})).run().good(),
            "2"
        );
    }
    mcp.end(home);
}

fn case_107_plots_are_said_to_be_missing(home: &Home) {
    let mcp = home.mcp();
    let tools = mcp.ask("tools/list", json!({}));
    let tool = tools["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .find(|tool| tool["name"] == "run_code")
        .expect("run_code")
        .clone();
    let text = tool["description"].as_str().expect("a description").to_lowercase();
    assert!(
        text.contains("image") || text.contains("plot") || text.contains("figure"),
        "the tool's text says it: {text}"
    );
    mcp.end(home);
}

fn case_108_home_locale_and_variables(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"env": {"FROM_CREATE": "naïve €"}}));
    let shown = "echo $HOME; echo $USER; echo $LANG; echo $PATH; touch ~/w && echo writable; echo $FROM_CREATE; whoami; pwd";
    let expected = "/home/sandbox\nsandbox\nC.UTF-8\n\
        /home/sandbox/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nwritable\nnaïve €\nsandbox\n/workspace";
    assert_eq!(mcp.sh(&sandbox, shown).good(), expected);
    let code = format!(
        "import subprocess; print(subprocess.run(['sh', '-c', {shown:?}], capture_output=True, text=True).stdout, end='')"
    );
    assert_eq!(
        mcp.call("run_code", json!({"sandbox_id": sandbox, "code": code})).run().good(),
        expected
    );
    assert_eq!(mcp.sh(&sandbox, "python3 -c \"print('é→')\"").good(), "é→");
    for (name, value) in
        [("V", "naïve €"), ("EMPTY", ""), ("QUOTES", "a'b\"c`d$(e)\nf\\g"), ("lower_9", "x=y=z")]
    {
        let run =
            mcp.sh_with(&sandbox, &format!("printf %s \"${name}\""), json!({"env": {name: value}}));
        assert_eq!(run.stdout, value, "{name}");
        let code = json!({"sandbox_id": sandbox, "env": {name: value}, "code": format!("import os; print(os.environ['{name}'], end='')")});
        assert_eq!(mcp.call("run_code", code).run().stdout, value, "{name}");
    }
    let many: serde_json::Map<_, _> =
        (0..200).map(|n| (format!("BIG_{n}"), json!("v".repeat(10_000)))).collect();
    let reply = mcp.call(
        "run_command",
        json!({"sandbox_id": sandbox, "command": "env | grep -c ^BIG_", "env": many}),
    );
    if reply.data().get("error").is_some() {
        assert_eq!(reply.code(), "invalid_argument", "{}", reply.text());
    } else {
        assert_eq!(reply.run().good(), "200");
    }
    for bad in ["WITH=EQUALS", "", "NUL\0", "9"] {
        let refused = mcp.call(
            "run_command",
            json!({"sandbox_id": sandbox, "command": "true", "env": {bad: "x"}}),
        );
        if bad == "9" && !refused.is_error() {
            continue;
        }
        assert_eq!(refused.code(), "invalid_argument", "the name {bad:?}");
    }
    let nul = mcp.call(
        "run_command",
        json!({"sandbox_id": sandbox, "command": "true", "env": {"A": "x\0y"}}),
    );
    assert_eq!(nul.code(), "invalid_argument");
    let huge = mcp.call(
        "run_command",
        json!({"sandbox_id": sandbox, "command": "true", "env": {"A": "x".repeat(3 << 20)}}),
    );
    assert!(huge.is_error() && huge.data()["error"]["code"] != "internal", "{}", huge.text());
    let clock: i64 = mcp.sh(&sandbox, "date +%s").good().parse().expect("a number");
    let host = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    assert!((clock - i64::try_from(host).expect("small")).abs() < 600, "the clock is right");
    mcp.end(home);
}

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

fn case_110_local_installs_and_no_network(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write(&sandbox, "wheel.py", WHEEL);
    mcp.sh(&sandbox, "python3 wheel.py").good();
    if mcp.sh(&sandbox, "python3 -m pip --version").exit_code == 0 {
        mcp.sh_with(&sandbox, "python3 -m pip install --no-index --user --break-system-packages ./islet-1.0-py3-none-any.whl || \
            python3 -m pip install --no-index --user ./islet-1.0-py3-none-any.whl", json!({"timeout_ms": 200_000})).good();
        assert_eq!(
            mcp.sh(&sandbox, "python3 -c 'import islet; print(islet.VALUE)'").good(),
            "42",
            "it lasts"
        );
        let by_name = mcp.sh_with(
            &sandbox,
            "python3 -m pip install --user --break-system-packages --retries 0 no-such-thing-here",
            json!({"timeout_ms": 200_000}),
        );
        assert!(
            by_name.exit_code != 0 && !by_name.timed_out && !by_name.stderr.is_empty(),
            "{by_name:?}"
        );
    } else {
        println!("SKIP part of case 110: no pip in the template");
    }
    if mcp.sh(&sandbox, "python3 -c 'import venv, ensurepip'").exit_code == 0 {
        let made = mcp.sh_with(
            &sandbox,
            "python3 -m venv v && v/bin/python -c 'import sys; print(sys.prefix)'",
            json!({"timeout_ms": 200_000}),
        );
        assert_eq!(made.good(), "/workspace/v");
    } else {
        let made = mcp.sh(
            &sandbox,
            "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'",
        );
        assert_eq!(made.good(), "/workspace/v");
    }
    let names = "import socket\nfor target in (('192.0.2.1', 80), ('example.org', 80), ('169.254.169.254', 80)):\n  try:\n    socket.create_connection(target, 200); print('connected')\n  except OSError as e: print('refused')\n";
    let code = mcp
        .call("run_code", json!({"sandbox_id": sandbox, "code": names, "timeout_ms": 200_000}))
        .run();
    assert_eq!(code.good(), "refused\nrefused\nrefused", "a clear failure and no waiting");
    assert_eq!(mcp.sh(&sandbox, "test -s /etc/ssl/certs/ca-certificates.crt && echo there || ls /etc/ssl/certs 2>&1 | head -n 1").exit_code, 0);
    mcp.end(home);
}

fn case_111_containers_and_init_fail_clearly(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for user in ["sandbox", "root"] {
        for command in [
            "unshare -Ur true",
            "mount -t tmpfs none /mnt",
            "systemctl status",
            "bwrap --ro-bind / / true",
            "unshare -m true",
            "chroot / mount -t proc proc /proc",
        ] {
            let run =
                mcp.sh_with(&sandbox, command, json!({"user": user, "timeout_ms": 2_000_000}));
            assert!(run.exit_code != 0 && !run.timed_out, "{user}: {command}: {run:?}");
            assert!(!run.stderr.is_empty() || !run.stdout.is_empty(), "{user}: {command} says why");
        }
    }
    let info = mcp.call("get_service_info", json!({}));
    assert_eq!(
        info.ok()["mode"].as_str().map(|mode| mode.starts_with("root")),
        Some(true),
        "{:?}",
        info.data()
    );
    mcp.end(home);
}

fn languages_of_run_code(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for (language, code, program) in [
        ("python", "print(6*7)", "python3"),
        ("bash", "echo $((6*7)) ${BASH_VERSION:+} | tr -d ' '", "bash"),
        ("shell", "a=(6 7); echo $((a[0]*a[1]))", "bash"),
        ("javascript", "console.log(6*7)", "node"),
        ("typescript", "const x: number = 6; console.log(x*7)", ""),
        ("r", "cat(6*7)", "Rscript"),
    ] {
        let reply = mcp
            .call("run_code", json!({"sandbox_id": sandbox, "code": code, "language": language}));
        if reply.data().get("error").is_some() {
            assert_eq!(reply.code(), "language_unavailable", "{language}: {}", reply.text());
            assert!(reply.text().to_lowercase().contains(language), "{}", reply.text());
            assert!(
                program.is_empty()
                    || mcp.sh(&sandbox, &format!("command -v {program}")).exit_code != 0,
                "{language} is there"
            );
        } else {
            assert_eq!(reply.run().good(), "42", "{language}");
        }
    }
    let unknown =
        mcp.call("run_code", json!({"sandbox_id": sandbox, "code": "x", "language": "cobol"}));
    assert_eq!(unknown.code(), "invalid_argument");
    assert!(
        unknown.text().contains("language") && unknown.text().contains("python"),
        "{}",
        unknown.text()
    );
    // A script of 5 MB: no argument list is in the way.
    let big = format!("x = '''{}'''\nprint(len(x))", "q".repeat(5_000_000));
    assert_eq!(
        mcp.call("run_code", json!({"sandbox_id": sandbox, "code": big})).run().good(),
        "5000000"
    );
    let failing =
        mcp.call("run_code", json!({"sandbox_id": sandbox, "code": "import sys; sys.exit(7)"}));
    assert_eq!(failing.run().exit_code, 7);
    let missing = mcp.call(
        "run_code",
        json!({"sandbox_id": sandbox, "language": "bash", "code": "no-such-program-at-all"}),
    );
    assert_eq!(missing.run().exit_code, 127);
    mcp.end(home);
}
