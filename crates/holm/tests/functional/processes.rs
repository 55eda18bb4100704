//! Process lifecycle: what a command starts, how it ends, and what is left of it.

use crate::common::*;

as_root!(
    case_11_background_process_does_not_hold_the_call,
    case_12_timeout_ends_the_whole_tree,
    case_15_no_zombies,
    case_16_fork_bomb,
    case_18_standard_input_is_at_its_end,
    case_19_exit_codes_and_signals,
    case_21_background_commands,
    case_23_removed_directories,
);
as_rootless!(
    case_11_background_process_does_not_hold_the_call,
    case_12_timeout_ends_the_whole_tree,
    case_16_fork_bomb,
    case_19_exit_codes_and_signals,
);

fn case_11_background_process_does_not_hold_the_call(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    // The sleeper outlives the guard of every wait: if a call hangs on it, the test fails.
    for command in [
        "sleep 3000 & echo started",
        "sleep 3000 >/dev/null 2>&1 & echo started",
        "python3 -m http.server 8000 & echo started",
        "(sleep 3000; echo late) & echo started",
        "nohup setsid sleep 3000 & echo started",
    ] {
        let before = mcp.processes(&sandbox);
        let run = mcp.sh_with(&sandbox, command, json!({"timeout_ms": 2_000_000}));
        assert_eq!(
            (run.exit_code, run.stdout.as_str(), run.timed_out),
            (0, "started\n", false),
            "{command}"
        );
        assert!(mcp.processes(&sandbox) > before, "{command}: it goes on");
    }
    let talker = "(while :; do echo noise; sleep 0.01; done) & echo started";
    // What it says before the command itself has ended is that command's own output.
    let first = mcp.sh(&sandbox, talker);
    assert!(first.good().lines().any(|line| line == "started"));
    for _ in 0..20 {
        assert_eq!(
            mcp.sh(&sandbox, "echo mine").good(),
            "mine",
            "its later output shows up in no other call"
        );
    }
    mcp.end(home);
}

fn case_12_timeout_ends_the_whole_tree(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for (at, command) in [
        "echo partial; sh -c 'while :; do date >> tick; sleep 0.2; done' & python3 -m http.server 9000 & wait",
        "echo partial; setsid sh -c 'while :; do date >> tick; sleep 0.2; done' & sleep 1000",
        "echo partial; (setsid setsid sh -c 'trap \"\" TERM INT HUP; while :; do date >> tick; sleep 0.1; done' &) ; sleep 1000",
        "echo partial; python3 -c 'import os,time\nfor i in range(6):\n  if os.fork() == 0 and i % 2: os.setsid()\nopen(\"tick\",\"a\").write(\"x\")\ntime.sleep(1000)'",
    ]
    .iter()
    .enumerate()
    {
        let before = mcp.processes(&sandbox);
        let timeout = if at == 0 { 3_000 } else { 1_500 };
        let run = mcp.sh_with(&sandbox, command, json!({"timeout_ms": timeout}));
        assert!(run.timed_out, "{command}: {run:?}");
        assert!(run.stdout.contains("partial"), "{command}: {run:?}");
        // A supervisor of an earlier command may have been there still when they were counted first.
        let after = mcp.processes(&sandbox);
        assert!(after <= before, "{command}: {after} processes instead of {before}");
        assert_ne!(mcp.sh(&sandbox, "wc -c < tick; rm tick").good(), "0", "{command}: it had worked");
    }
    let bind = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 9000)); print('free')";
    mcp.write(&sandbox, "bind.py", bind);
    // Reuse is not set: the port must be really free, and nobody may be connected.
    assert_eq!(mcp.sh(&sandbox, "python3 bind.py").good(), "free");
    assert_eq!(mcp.sh(&sandbox, "test -e tick && echo grows || echo none").good(), "none");
    mcp.end(home);
}

fn case_15_no_zombies(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for _ in 0..15 {
        let ids: Vec<_> =
            (0..20).map(|_| mcp.start_sh(&sandbox, "(sleep 0.1 &) ; true", json!({}))).collect();
        for id in ids {
            mcp.finish(id).run().good();
        }
    }
    let forker = "import os\nfor _ in range(50):\n  if os.fork() == 0: os._exit(0)\n";
    mcp.write(&sandbox, "forker.py", forker);
    mcp.sh(&sandbox, "python3 forker.py").good();
    let count = "n=0; for f in /proc/[0-9]*/stat; do read l < $f || continue; case ${l##*) } in Z*) n=$((n+1));; esac; done 2>/dev/null; echo $n";
    until("no zombie inside", || (mcp.sh(&sandbox, count).good() == "0").then_some(()));
    until("no defunct child of the service", || {
        children(mcp.pid()).iter().all(|(_, state)| *state != 'Z').then_some(())
    });
    until("no defunct process of keeper and launcher", || {
        let below = descendants(mcp.pid());
        below.iter().all(|(pid, _)| state(*pid) != Some('Z')).then_some(())
    });
    mcp.end(home);
}

fn case_16_fork_bomb(home: &Home) {
    let mcp = home.mcp();
    let (mut victim, other) = (mcp.create(), mcp.create());
    let timeout = if long() { 20_000 } else { 4_000 };
    let python = "import os, errno\nn = 0\nwhile True:\n  try:\n    if os.fork() == 0:\n      while True: os.wait4(-1, 0) if False else __import__('time').sleep(1000)\n    n += 1\n  except OSError as e:\n    print(errno.errorcode[e.errno], n, flush=True)\n    __import__('time').sleep(1000)\n";
    mcp.write(&victim, "bomb.py", python);
    for bomb in [
        "bash -c ':(){ :|:& };:' 2>/dev/null; sleep 1000",
        "python3 bomb.py",
        "unshare -Ur bash -c ':(){ :|:& };:' 2>/dev/null; sleep 1000",
    ] {
        let before = mcp.processes(&victim);
        let id = mcp.start_sh(&victim, bomb, json!({"timeout_ms": timeout}));
        let mut echoes = 0;
        let run = loop {
            assert_eq!(mcp.sh(&other, "echo ok").good(), "ok");
            mcp.call("get_sandbox", json!({"sandbox_id": victim})).ok();
            echoes += 1;
            if let Some(reply) = mcp.reply_now(id) {
                break Tool { reply }.run();
            }
        };
        // At its timeout at the latest. Earlier, when the shell that holds the bomb becomes one of
        // its victims: it cannot fork any more (2 from sh, 254 from bash), or is the process that
        // the kernel ends when memory is out (137). It never ends well.
        assert_ne!(run.exit_code, 0, "{bomb}: {run:?}");
        assert!(echoes > 1, "the other sandbox worked meanwhile");
        if bomb.starts_with("python3") {
            let killed = run.exit_code == 137 && !run.timed_out;
            assert!(
                killed || run.stdout.starts_with("EAGAIN "),
                "fork fails with a temporary error: {run:?}"
            );
        }
        if !run.timed_out {
            // What a command leaves in the background when it ends by itself may go on; the next
            // bomb gets a sandbox without.
            mcp.destroy(&victim);
            victim = mcp.create();
            mcp.write(&victim, "bomb.py", python);
            continue;
        }
        until("nothing of the bomb is left, and there is room again", || {
            let count = json!({"sandbox_id": victim, "command": "set -- /proc/[0-9]*; echo $#"});
            let reply = mcp.call("run_command", count);
            (reply.data()["stdout"] == format!("{before}\n")).then_some(())
        });
    }
    // And destroy in the middle of one.
    let id = mcp.start_sh(
        &victim,
        "bash -c ':(){ :|:& };:' 2>/dev/null; sleep 1000",
        json!({"timeout_ms": 2_000_000}),
    );
    until("the bomb is at work", || {
        let seen = mcp.call("get_sandbox", json!({"sandbox_id": victim}));
        seen.ok()["usage"]["processes"].as_u64().is_none_or(|n| n > 50).then_some(())
    });
    mcp.destroy(&victim);
    assert_eq!(mcp.finish(id).code(), "sandbox_gone");
    assert_eq!(mcp.sh(&other, "echo ok").good(), "ok");
    mcp.end(home);
}

fn case_18_standard_input_is_at_its_end(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    // No call here has a timeout below the guard: a program that waits for input fails the test.
    for (command, code, out) in [
        ("cat", 0, ""),
        ("read x; echo got:$x", 0, "got:\n"),
        ("python3 -c 'input()' 2>&1 | tail -n 1", 0, "EOFError: EOF when reading a line\n"),
        ("bash -c 'select x in a b; do echo $x; done' 2>/dev/null; echo after", 0, "after\n"),
        ("wc -c", 0, "0\n"),
    ] {
        let run = mcp.sh_with(&sandbox, command, json!({"timeout_ms": 2_000_000}));
        assert_eq!((run.exit_code, run.stdout.trim_start()), (code, out), "{command}");
    }
    if mcp.sh(&sandbox, "command -v npm").exit_code == 0 {
        // It asks for name, version and more.
        let npm = "mkdir -p n && cd n && npm init; echo ended";
        let run = mcp.sh_with(&sandbox, npm, json!({"timeout_ms": 2_000_000}));
        assert!(run.stdout.contains("package name") && run.stdout.ends_with("ended\n"), "{run:?}");
    } else {
        println!("SKIP part of case 18: no npm in the template");
    }
    let code = mcp.call(
        "run_code",
        json!({"sandbox_id": sandbox, "code": "import sys; print(repr(sys.stdin.read()))"}),
    );
    assert_eq!(code.run().good(), "''");
    mcp.end(home);
}

fn case_19_exit_codes_and_signals(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write(&sandbox, "plain", "#!/bin/sh\necho no\n");
    for (command, code, signal) in [
        ("exit 255", 255, false),
        ("kill -SEGV $$", 139, true),
        ("kill -TERM $$", 143, true),
        ("kill -KILL $$", 137, true),
        ("no-such-program-here", 127, false),
        ("./plain", 126, false),
        ("/workspace", 126, false),
        ("exit 0", 0, false),
    ] {
        let run = mcp.sh(&sandbox, command);
        assert_eq!(run.exit_code, code, "{command}: {run:?}");
        assert_eq!(run.signal.is_some(), signal, "{command}: {run:?}");
        assert!(!run.timed_out, "{command}");
    }
    let named = mcp.sh(&sandbox, "kill -SEGV $$");
    assert!(named.signal.expect("a signal").to_string().contains("SEGV"), "the signal is named");
    let unknown = mcp.call(
        "run_command",
        json!({"sandbox_id": "sbx_000000000000000000", "command": "exit 255"}),
    );
    assert_eq!(unknown.code(), "not_found");
    assert!(unknown.data().get("exit_code").is_none());
    mcp.end(home);
}

/// Over a lost connection and a restart of the service: `rest/commands.rs`.
fn case_21_background_commands(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let before = mcp.processes(&sandbox);
    let start = |command: &str, more: Value| -> String {
        let mut arguments = json!({"sandbox_id": sandbox, "background": true, "command": command});
        arguments
            .as_object_mut()
            .expect("an object")
            .append(&mut more.as_object().cloned().expect("one"));
        let begun = mcp.call("run_command", arguments);
        assert!(begun.text().contains("get_command"), "{}", begun.text());
        begun.ok()["command_id"].as_str().expect("an id").to_owned()
    };
    let get = |id: &str, from: u64| {
        let asked = json!({"sandbox_id": sandbox, "command_id": id, "stdout_from": from,
            "stderr_from": 1 << 30, "wait_ms": 60_000});
        mcp.call("get_command", asked).ok().clone()
    };
    // Read on while it writes, without loss, to its end.
    let ticks = start("for i in $(seq 40); do echo tick $i; sleep 0.02; done; exit 5", json!({}));
    let (mut text, mut from) = (String::new(), 0);
    let end = loop {
        let now = get(&ticks, from);
        text.push_str(now["stdout"].as_str().expect("text"));
        from = now["stdout_next"].as_u64().expect("a place");
        if now["state"] != "running" && now["stdout_bytes"] == from {
            break now;
        }
    };
    let want: String = (1..=40).map(|i| format!("tick {i}\n")).collect();
    assert_eq!(text, want);
    assert_eq!((&end["state"], &end["exit_code"]), (&json!("exited"), &json!(5)));
    // What is asked is answered.
    let talk =
        start("while read -r x; do echo \"<$x>\"; done; echo bye", json!({"keep_stdin": true}));
    let send = |text: &str, close: bool| {
        let asked =
            json!({"sandbox_id": sandbox, "command_id": talk, "text": text, "close": close});
        mcp.call("send_input", asked)
    };
    assert_eq!(send("hello\n", false).ok()["stdin_open"], true);
    assert_eq!(get(&talk, 0)["stdout"], "<hello>\n");
    send("", true).ok();
    until("it ends", || (get(&talk, 8)["state"] == "exited").then_some(()));
    assert_eq!(get(&talk, 8)["stdout"], "bye\n");
    assert_eq!(send("late", false).code(), "conflict");
    // Killed with all that it started; its own time limit does the same.
    let many = start("setsid sleep 4321 & sleep 4321 & wait", json!({}));
    let kill = json!({"sandbox_id": sandbox, "command_id": many});
    assert_eq!(mcp.call("kill_command", kill.clone()).ok()["state"], "killed");
    assert_eq!(mcp.call("kill_command", kill).ok()["state"], "killed");
    let short = start("sleep 4321", json!({"timeout_ms": 100}));
    assert_eq!(get(&short, 0)["state"], "timed_out");
    until("all are gone", || (mcp.processes(&sandbox) == before).then_some(()));
    let listed = mcp.call("list_commands", json!({"sandbox_id": sandbox})).ok().clone();
    let ids: Vec<&str> = listed["commands"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|command| command["command_id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids, [&ticks, &talk, &many, &short]);
    // Another sandbox has its own.
    let other = mcp.create();
    let foreign = json!({"sandbox_id": other, "command_id": ticks});
    let missing = mcp.call("get_command", foreign);
    assert_eq!(missing.code(), "not_found");
    assert!(missing.text().contains("list_commands"), "{}", missing.text());
    mcp.end(home);
}

fn case_23_removed_directories(home: &Home) {
    let mcp = home.mcp();
    let tries = [
        ("rm -rf /workspace", "mkdir /workspace && chown 1000:1000 /workspace"),
        ("rm -rf /tmp", "mkdir -m 1777 /tmp"),
        (
            "rm -rf /workspace && ln -s /home/sandbox /workspace",
            "rm /workspace && mkdir /workspace && chown 1000:1000 /workspace",
        ),
        (
            "rm -rf /home/sandbox /tmp /var/tmp /workspace",
            "mkdir -p /workspace /home/sandbox && chown 1000:1000 /workspace /home/sandbox && mkdir -m 1777 /tmp /var/tmp",
        ),
    ];
    let sandbox = mcp.create();
    for (harm, heal) in tries {
        mcp.sh_root(&sandbox, &format!("cd /; {harm}")).good();
        // Each either works from another directory or names the directory.
        for (tool, arguments) in [
            ("run_command", json!({"sandbox_id": sandbox, "command": "pwd"})),
            ("write_file", json!({"sandbox_id": sandbox, "path": "after", "content": "x"})),
            ("run_code", json!({"sandbox_id": sandbox, "code": "print(1)"})),
        ] {
            let reply = mcp.call(tool, arguments);
            if reply.is_error() {
                let text = reply.text();
                assert!(
                    text.contains("/workspace")
                        || text.contains("/tmp")
                        || text.contains("directory"),
                    "{harm}: {tool}: {text}"
                );
                assert_ne!(reply.data()["error"]["code"], "internal", "{harm}: {tool}: {text}");
            }
        }
        mcp.sh_with(&sandbox, heal, json!({"user": "root", "cwd": "/"})).good();
        assert_eq!(
            mcp.sh(&sandbox, "pwd; echo x > again && cat again").good(),
            "/workspace\nx",
            "{heal} heals"
        );
        mcp.write(&sandbox, "healed", "x");
        assert_eq!(
            mcp.call("run_code", json!({"sandbox_id": sandbox, "code": "print(1)"})).run().good(),
            "1"
        );
    }
    mcp.end(home);
}
