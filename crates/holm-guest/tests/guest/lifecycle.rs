//! Process lifecycle.

use std::time::{Duration, Instant};

use holm_wire::client::ClientError;
use holm_wire::connect::Code;
use holm_wire::guest::{Outcome, RunRequest};

use crate::harness::{HANG, request, running, text, with_guest, with_timeout};

fn code(result: Result<impl std::fmt::Debug, ClientError>) -> (Code, String) {
    match result {
        Err(ClientError::Guest(error)) => (error.code, error.message),
        other => panic!("no error of the guest's: {other:?}"),
    }
}

#[test]
fn case_11_a_background_program_does_not_hold_the_call() {
    with_guest(async |guest| {
        let result = guest.run(with_timeout("sleep 3111 & echo started", 30_000)).await;
        assert_eq!((text(&result.stdout), result.outcome), ("started\n".into(), Outcome::Exited));
        assert_eq!(running("sleep 3111"), 1, "the background process goes on");
        // It writes far more than a pipe holds, is neither stopped nor killed by that, and is
        // heard in no other call.
        let result = guest.sh("(yes | head -c 20M; touch done) & echo begun").await;
        assert!(
            result.stdout.head.starts_with(b"begun\n") || result.stdout.head.starts_with(b"y\n")
        );
        let began = Instant::now();
        while !guest.work.join("done").exists() {
            assert!(began.elapsed() < HANG, "the background process is stuck");
            let other = guest.sh("echo mine").await;
            assert_eq!(text(&other.stdout), "mine\n");
        }
    });
}

#[test]
fn case_12_a_timeout_kills_everything() {
    with_guest(async |guest| {
        let script = "while :; do date >> tick; sleep 0.05; done & setsid sleep 3112 & \
                      (setsid sh -c 'sleep 3112 & sleep 3112' &) ; sleep 0.2; echo part; wait";
        let result = guest.run(with_timeout(script, 600)).await;
        assert_eq!((result.outcome, text(&result.stdout)), (Outcome::TimedOut, "part\n".into()));
        assert_eq!((result.exit_code, result.signal), (137, Some(9)));
        assert_eq!(running("sleep 3112"), 0);
        let size = std::fs::metadata(guest.work.join("tick")).unwrap().len();
        guest.sh("sleep 0.3").await;
        assert_eq!(std::fs::metadata(guest.work.join("tick")).unwrap().len(), size);
    });
}

#[test]
fn a_caller_that_leaves_ends_its_command() {
    with_guest(async |guest| {
        let asked = request(&["sh", "-c", "setsid sleep 3113 & sleep 3113"]);
        let call = guest.client.run(&asked);
        let _ = tokio::time::timeout(Duration::from_millis(300), call).await.unwrap_err();
        guest.wait_gone("sleep 3113").await;
    });
}

#[test]
fn a_killed_supervisor_takes_its_command_along() {
    with_guest(async |guest| {
        let script = "setsid sleep 3114 & kill -9 $PPID; sleep 3114";
        let result = guest.run(with_timeout(script, 20_000)).await;
        assert_eq!((result.outcome, result.signal), (Outcome::Signaled, Some(9)));
        guest.wait_gone("sleep 3114").await;
    });
}

#[test]
fn a_stopped_supervisor_does_not_escape_the_deadline() {
    with_guest(async |guest| {
        let script = "setsid sleep 3115 & kill -STOP $PPID; sleep 3115";
        let result = guest.run(with_timeout(script, 300)).await;
        assert_eq!(result.outcome, Outcome::TimedOut);
        guest.wait_gone("sleep 3115").await;
    });
}

#[test]
fn case_15_nothing_stays_a_zombie() {
    with_guest(async |guest| {
        for _ in 0..100 {
            guest.sh("(sleep 0.01 &) ; true").await;
        }
        let script = "import os\nfor _ in range(20):\n  if os.fork() == 0: os._exit(0)";
        guest.run(request(&["python3", "-c", script])).await;
        let began = Instant::now();
        while guest.children_in_state("Z") + guest.children_in_state("S") > 0 {
            assert!(began.elapsed() < HANG, "children are left");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn case_18_standard_input_is_at_its_end() {
    with_guest(async |guest| {
        assert_eq!(guest.run(request(&["cat"])).await.stdout.total, 0);
        assert_eq!(text(&guest.sh("read x; echo got:$x").await.stdout), "got:\n");
        let result = guest.run(request(&["python3", "-c", "input()"])).await;
        assert!(text(&result.stderr).contains("EOFError"));
        let fed = |bytes: &[u8], argv: &[&str]| RunRequest {
            stdin: Some(bytes.to_vec()),
            ..request(argv)
        };
        let result = guest.run(fed(b"abc", &["cat"])).await;
        assert_eq!(text(&result.stdout), "abc");
        // Input that nobody reads is no failure.
        let result = guest.run(fed(&vec![b'x'; 4 << 20], &["true"])).await;
        assert_eq!(result.exit_code, 0);
        let result = guest.run(fed(&vec![b'x'; 4 << 20], &["wc", "-c"])).await;
        assert_eq!(text(&result.stdout).trim(), "4194304");
    });
}

#[test]
fn case_19_ends_can_be_told_apart() {
    with_guest(async |guest| {
        std::fs::write(guest.work.join("plain"), "x").unwrap();
        std::fs::write(guest.work.join("script"), "echo from script $1").unwrap();
        guest.sh("chmod +x script").await;
        for (argv, code, signal, said) in [
            (&["sh", "-c", "exit 255"][..], 255, None, ""),
            (&["sh", "-c", "kill -SEGV $$"], 139, Some(11), ""),
            (&["sh", "-c", "kill -TERM $$"], 143, Some(15), ""),
            (&["no-such-program"], 127, None, "holm: no-such-program: command not found\n"),
            (&["./no-such-file"], 127, None, "holm: ./no-such-file: command not found\n"),
            (&["./plain"], 126, None, "holm: ./plain: permission denied\n"),
            (&["/"], 126, None, "holm: /: permission denied\n"),
            (&["./script", "x"], 0, None, ""),
        ] {
            let result = guest.run(request(argv)).await;
            assert_eq!((result.exit_code, result.signal), (code, signal), "{argv:?}");
            assert_eq!(text(&result.stderr), said, "{argv:?}");
            let outcome = if signal.is_some() { Outcome::Signaled } else { Outcome::Exited };
            assert_eq!(result.outcome, outcome, "{argv:?}");
        }
    });
}

#[test]
fn case_23_a_missing_working_directory_is_no_dead_end() {
    with_guest(async |guest| {
        let named = RunRequest { cwd: Some("gone".into()), ..request(&["pwd"]) };
        let (kind, said) = code(guest.client.run(&named).await);
        assert_eq!(kind, Code::InvalidArgument);
        assert!(said.contains("gone") && said.contains("does not exist"), "{said}");
        std::fs::remove_dir_all(&guest.work).unwrap();
        let result = guest.run(request(&["pwd"])).await;
        assert_eq!((result.exit_code, text(&result.stdout)), (0, "/\n".into()));
        std::fs::create_dir(&guest.work).unwrap();
        let result = guest.run(request(&["pwd"])).await;
        assert_eq!(text(&result.stdout).trim(), guest.path("").trim_end_matches('/'));
    });
}

#[test]
fn commands_start_clean() {
    with_guest(async |guest| {
        let result = guest.run(request(&["ls", "/proc/self/fd"])).await;
        // Three, and the one with which ls reads the directory.
        assert_eq!(text(&result.stdout), "0\n1\n2\n3\n");
        let script = "umask; cat /proc/self/oom_score_adj; grep core /proc/self/limits | tr -s ' '";
        let said = text(&guest.sh(script).await.stdout);
        assert_eq!(said.trim_end(), "0022\n500\nMax core file size 0 1 bytes");
        let result = guest.sh("grep -E 'Sig(Ign|Blk)|NoNewPrivs' /proc/self/status").await;
        let said = text(&result.stdout);
        assert_eq!(said.matches("\t0000000000000000\n").count(), 2, "{said}");
        assert!(said.contains("NoNewPrivs:\t1"), "{said}");
    });
}

#[test]
fn what_the_system_cannot_take_is_refused_by_name() {
    with_guest(async |guest| {
        let with_env = |name: &str, value: &str| RunRequest {
            env: [(name.to_owned(), value.to_owned())].into(),
            ..request(&["true"])
        };
        for (asked, word) in [
            (request(&[]), "empty"),
            (request(&[""]), "empty"),
            (request(&["echo", "a\0b"]), "argument 1"),
            (request(&["echo", &"x".repeat(200_000)]), "argument 1"),
            (with_env("a=b", "c"), "a=b"),
            (with_env("", "c"), "variable"),
            (with_env("A", "b\0"), "variable"),
        ] {
            let (kind, said) = code(guest.client.run(&asked).await);
            assert_eq!(kind, Code::InvalidArgument, "{said}");
            assert!(said.contains(word), "{said}");
        }
        let result = guest.run(RunRequest {
            env: [("naïve €".to_owned(), "ü = ü".to_owned())].into(),
            ..request(&["env"])
        });
        assert!(text(&result.await.stdout).contains("naïve €=ü = ü\n"));
    });
}
