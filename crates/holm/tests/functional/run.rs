//! `holm run`: streams, exit codes, signals, terminals, and nothing left.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::*;

as_root!(
    exit_codes_pass,
    streams_pass_unchanged,
    input_is_streamed,
    interrupt_reaches_the_command,
    settings_of_the_run,
    mounted_directories_are_read_only,
    a_time_limit_ends_it,
    a_terminal_is_a_terminal,
    bad_arguments_are_refused,
    two_at_once_do_not_meet,
);
as_rootless!(
    exit_codes_pass,
    streams_pass_unchanged,
    interrupt_reaches_the_command,
    mounted_directories_are_read_only
);

fn exit_codes_pass(home: &Home) {
    for (args, code) in [
        (&["true"][..], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -SEGV $$"], 139),
        (&["no-such-program-here"], 127),
        (&["/etc"], 126),
        (&["python3", "-c", "print(6*7)"], 0),
    ] {
        let full: Vec<&str> = ["run", "--"].iter().chain(args).copied().collect();
        let exit = home.holm(&full);
        assert_eq!(exit.code(), Some(code), "{args:?}: {}", exit.err());
        home.assert_clean();
    }
    assert_eq!(home.holm(&["run", "--", "python3", "-c", "print(6*7)"]).out(), "42\n");
}

fn streams_pass_unchanged(home: &Home) {
    let input: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let exit = home.holm_with(&["run", "--", "cat"], &input);
    assert_eq!(exit.code(), Some(0), "{}", exit.err());
    assert!(exit.stdout == input, "{} of {} bytes came back", exit.stdout.len(), input.len());
    let exit = home.holm(&["run", "--", "sh", "-c", "printf 'o\\0\\377'; printf 'e\\0\\376' >&2"]);
    assert_eq!(
        (exit.stdout.as_slice(), exit.stderr.as_slice()),
        (&b"o\0\xff"[..], &b"e\0\xfe"[..])
    );
    let exit = home.holm(&["run", "--", "head", "-c", "50000000", "/dev/zero"]);
    assert_eq!(exit.stdout.len(), 50_000_000, "streams are not cut");
}

fn input_is_streamed(home: &Home) {
    let mut child = home
        .command()
        .args(["run", "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for word in ["one", "two", "three"] {
        writeln!(stdin, "{word}").expect("it reads");
        // The answer comes while the input is still open.
        assert_eq!(lines.next().expect("a line").expect("text"), word);
    }
    drop(stdin);
    assert!(until("it ends", || child.try_wait().expect("ours")).success());
}

fn interrupt_reaches_the_command(home: &Home) {
    let script =
        "trap 'echo interrupted; exit 9' INT TERM; echo ready; while :; do sleep 0.05; done";
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = home
            .command()
            .args(["run", "--", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "ready");
        home.note_instances();
        let pid =
            Pid::from_raw(i32::try_from(child.id()).expect("a process id")).expect("not zero");
        kill_process(pid, signal).expect("it is ours");
        assert_eq!(lines.next().expect("a line").expect("text"), "interrupted", "{signal:?}");
        assert_eq!(
            until("it ends", || child.try_wait().expect("ours")).code(),
            Some(9),
            "{signal:?}"
        );
        home.assert_clean();
    }
}

fn settings_of_the_run(home: &Home) {
    for user in ["sandbox", "root"] {
        let exit = home.holm(&["run", "--user", user, "--", "pwd"]);
        // Root inside needs more than one id.
        assert!(exit.out() == "/workspace\n" || exit.err().contains("root"), "{}", exit.err());
    }
    let exit = home.holm(&[
        "run",
        "--env",
        "A=b c",
        "--env",
        "E=",
        "--workdir",
        "/tmp",
        "--size",
        "small",
        "--template",
        "host",
        "--",
        "sh",
        "-c",
        "echo \"$A|$E|$(pwd)|$(id -un)|$HOLM_SANDBOX\"; echo \"$0-$#\"",
        "zero",
        "one",
    ]);
    assert_eq!(exit.out(), "b c||/tmp|sandbox|1\nzero-1\n", "{}", exit.err());
}

fn mounted_directories_are_read_only(home: &Home) {
    let shown = home.dir.join("shown");
    std::fs::create_dir(&shown).expect("a directory");
    std::fs::write(shown.join("f"), "from the host").expect("a file");
    let mount = format!("{}:/mnt/shown", shown.display());
    let exit = home.holm(&["run", "--mount-ro", &mount, "--", "sh", "-c", "cat /mnt/shown/f; echo x > /mnt/shown/f || echo refused; touch /mnt/shown/g || echo refused"]);
    assert_eq!(exit.out(), "from the hostrefused\nrefused\n", "{}", exit.err());
    assert_eq!(std::fs::read_to_string(shown.join("f")).expect("the file"), "from the host");
    // Also as the working directory, and over it: what is shown is no part of the sandbox's disk.
    for (inside, workdir) in [("/src", Some("/src")), ("/workspace", None)] {
        let mount = format!("{}:{inside}", shown.display());
        let mut line = vec!["run", "--mount-ro", &mount];
        line.extend(workdir.into_iter().flat_map(|dir| ["--workdir", dir]));
        line.extend(["--", "sh", "-c", "pwd; ls"]);
        let exit = home.holm(&line);
        assert_eq!(exit.out(), format!("{inside}\nf\n"), "{}", exit.err());
    }
    for (mount, named) in [
        ("/no/such/place:/mnt/x", "/no/such/place"),
        ("/tmp:/usr", "/workspace"),
        ("/tmp:/src:ro", "colon"),
    ] {
        let bad = home.holm(&["run", "--mount-ro", mount, "--", "true"]);
        assert_eq!(bad.code(), Some(2), "{mount}: {}", bad.err());
        assert!(bad.err().contains(named), "{mount}: {}", bad.err());
    }
}

fn a_time_limit_ends_it(home: &Home) {
    let exit = home.holm(&[
        "run",
        "--timeout",
        "2s",
        "--",
        "sh",
        "-c",
        "echo partial; setsid sleep 3000 & sleep 3000",
    ]);
    assert_ne!(exit.code(), Some(0));
    assert_eq!(exit.out(), "partial\n");
    assert!(!exit.err().is_empty(), "it says why it ended");
}

fn a_terminal_is_a_terminal(home: &Home) {
    let mut command = home.command_of("/usr/bin/script".as_ref());
    let inner = format!(
        "{} run -- sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM'",
        home.program.display()
    );
    command.args(["-qec", &inner, "/dev/null"]).env("TERM", "xterm-256color").stdin(Stdio::null());
    let out = command.output().expect("script is there");
    let text = String::from_utf8_lossy(&out.stdout).replace('\r', "");
    assert!(text.contains("xterm"), "a terminal inside: {text} {:?}", out.status);
    let piped = home.holm(&["run", "--", "sh", "-c", "test -t 1 && echo tty || echo pipe"]);
    assert_eq!(piped.out(), "pipe\n");
}

fn bad_arguments_are_refused(home: &Home) {
    for (args, named) in [
        (&["run", "--template", "nothing-like-it", "--", "true"][..], "template"),
        (&["run", "--size", "enormous", "--", "true"], "size"),
        (&["run", "--workdir", "src", "--", "true"], "absolute"),
        (&["run", "--workdir", "", "--", "true"], "workdir"),
        (&["run", "--workdir", "/nowhere", "--", "true"], "/nowhere"),
        (&["run", "--env", "NOEQUALS=", "--env", "=x", "--", "true"], "env"),
        (&["run", "--timeout", "soon", "--", "true"], "timeout"),
        (&["run"], "CMD"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let exit = home.holm(args);
        assert!(!matches!(exit.code(), Some(0) | None), "{args:?}");
        assert!(
            exit.err().to_lowercase().contains(&named.to_lowercase()),
            "{args:?} names {named}: {}",
            exit.err()
        );
        assert!(exit.stdout.is_empty(), "{args:?}");
        assert!(!exit.err().contains("panicked"), "{}", exit.err());
    }
}

fn two_at_once_do_not_meet(home: &Home) {
    let spawn = |name: &str| {
        home.command()
            .args([
                "run",
                "--",
                "sh",
                "-c",
                &format!(
                    "echo {name} > /workspace/f; cat; cat /workspace/f; ls /workspace | wc -l"
                ),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let mut children: Vec<_> =
        ["one", "two", "three", "four"].iter().map(|name| (*name, spawn(name))).collect();
    for (_, child) in &mut children {
        drop(child.stdin.take());
    }
    for (name, child) in children {
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&out.stdout), format!("{name}\n1\n"));
    }
}
