//! Language runtimes and the environment that programs find.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::common::*;

as_root!(
    case_104_partial_output_of_python,
    case_105_after_timed_out_code,
    case_107_plots_are_said_to_be_missing,
    case_108_home_locale_and_variables,
    case_104_python_streams_at_once,
    case_111_containers_and_init_fail_clearly,
    languages_of_run_code,
);
as_rootless!(
    case_104_partial_output_of_python,
    case_104_python_streams_at_once,
    case_108_home_locale_and_variables
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

/// The program goes on only when its output was read.
fn case_104_python_streams_at_once(home: &Home) {
    let code = "print('hello')\nimport sys\nprint('wrong', file=sys.stderr)\nprint('got', input())";
    let mut child = home
        .command()
        .args(["run", "--", "python3", "-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut err = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert_eq!(out.next().expect("a line").expect("text"), "hello");
    assert_eq!(err.next().expect("a line").expect("text"), "wrong");
    assert!(child.try_wait().expect("ours").is_none(), "it still runs");
    writeln!(input, "word").expect("it reads");
    assert_eq!(out.next().expect("a line").expect("text"), "got word");
    assert!(until("it ends", || child.try_wait().expect("ours")).success());
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
    let shown = "echo $HOME; echo $USER; echo $LANG; echo ${TZ-none} $(date +%Z); echo $PATH; touch ~/w && echo writable; echo $FROM_CREATE; whoami; pwd";
    let expected = "/home/sandbox\nsandbox\nC.UTF-8\nnone UTC\n\
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
    let count = "env | grep -c '^BIG_[0-9]*=v\\{10000\\}$'";
    let reply =
        mcp.call("run_command", json!({"sandbox_id": sandbox, "command": count, "env": many}));
    assert_eq!(reply.run().good(), "200");
    let count = "import os; print(sum(k.startswith('BIG_') and v == 'v' * 10000 for k, v in os.environ.items()))";
    let reply = mcp.call("run_code", json!({"sandbox_id": sandbox, "code": count, "env": many}));
    assert_eq!(reply.run().good(), "200");
    // Names that a shell would drop are refused wherever they are given, so that a variable is
    // there in every program or in none.
    for bad in ["WITH=EQUALS", "", "NUL\0", "9", "naïve €", "a.b", "A-B"] {
        for (tool, arguments) in [
            ("run_command", json!({"sandbox_id": sandbox, "command": "true", "env": {bad: "x"}})),
            ("run_code", json!({"sandbox_id": sandbox, "code": "1", "env": {bad: "x"}})),
            ("create_sandbox", json!({"env": {bad: "x"}})),
        ] {
            assert_eq!(mcp.call(tool, arguments).code(), "invalid_argument", "{tool}: {bad:?}");
        }
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

fn case_111_containers_and_init_fail_clearly(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for user in ["sandbox", "root"] {
        for command in [
            "unshare -Ur true",
            "mount -t tmpfs none /mnt",
            "systemctl status",
            "docker info",
            "podman info",
            "bwrap --ro-bind / / true",
            "unshare -m true",
            "chroot / mount -t proc proc /proc",
            "qemu-system-x86_64 -accel kvm -display none -machine none",
            "exec 3<> /dev/kvm",
        ] {
            let program = command.split(' ').next().expect("a word");
            let there = mcp.sh(&sandbox, &format!("command -v {program}")).exit_code == 0;
            let run =
                mcp.sh_with(&sandbox, command, json!({"user": user, "timeout_ms": 2_000_000}));
            let told = format!("{}{}", run.stdout, run.stderr);
            assert!(!run.timed_out, "{user}: {command}: {run:?}");
            if !there {
                assert_eq!(run.exit_code, 127, "{user}: {command}: {run:?}");
                assert!(told.contains("not found"), "{user}: {command} says why: {told}");
                continue;
            }
            // It is there and was tried: what fails is what the sandbox does not give.
            assert!(![0, 126, 127].contains(&run.exit_code), "{user}: {command}: {run:?}");
            let clear = [
                "not permitted",
                "ermission denied",
                "No such file",
                "nonexistent",
                "not been booted with systemd",
                "must be superuser",
                "annot connect",
                "No permissions to create new namespace",
                "Read-only file system",
            ];
            assert!(
                clear.iter().any(|reason| told.contains(reason)),
                "{user}: {command} says why: {told}"
            );
        }
        // As programs use it, which say themselves that there is none.
        let kvm = "import os\ntry: os.open('/dev/kvm', os.O_RDWR); print('opened')\nexcept OSError as e: print(type(e).__name__)\n\
            try: os.mknod('/tmp/kvm', 0o20666, os.makedev(10, 232)); print('made')\nexcept OSError as e: print(type(e).__name__)";
        mcp.write(&sandbox, "/tmp/kvm.py", kvm);
        let run = mcp.sh_with(&sandbox, "python3 /tmp/kvm.py", json!({"user": user}));
        assert_eq!(run.good(), "FileNotFoundError\nPermissionError", "{user}");
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

/// Where the template has no runner: one that a user installed is found and started with the
/// file of the code.
fn a_runner_is_started(mcp: &Mcp, sandbox: &str, language: &str, code: &str) {
    let (runner, file) = match language {
        "typescript" => ("tsx", "main.ts"),
        "r" => ("Rscript", "main.R"),
        "javascript" => ("node", "main.js"),
        other => panic!("every template has {other}"),
    };
    mcp.write(sandbox, "shim", "#!/bin/sh\necho $# ${0##*/} ${1##*/}\ncat \"$1\"\n");
    let install = format!("mkdir -p ~/.local/bin && install shim ~/.local/bin/{runner}");
    mcp.sh(sandbox, &install).good();
    let arguments = json!({"sandbox_id": sandbox, "code": code, "language": language});
    let reply = mcp.call("run_code", arguments);
    assert_eq!(reply.run().good(), format!("1 {runner} {file}\n{code}"), "{language}");
    mcp.sh(sandbox, &format!("rm ~/.local/bin/{runner}")).good();
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
            a_runner_is_started(&mcp, &sandbox, language, code);
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
