//! Output handling.

use holm_wire::guest::{Outcome, RunRequest};

use crate::harness::{request, text, with_guest, with_timeout};

#[test]
fn case_1_characters_survive_any_cut() {
    with_guest(async |guest| {
        let script = "import sys\nfor f in (sys.stdout, sys.stderr):\n f.write('a'*65535+'é'+'日本語\\n'*20000)";
        let result = guest.run(request(&["python3", "-c", script])).await;
        let want = format!("{}é{}", "a".repeat(65535), "日本語\n".repeat(20000));
        assert!(text(&result.stdout) == want, "stdout differs");
        assert!(text(&result.stderr) == want, "stderr differs");
        let result = guest.sh("printf '\\342\\202'; sleep 0.3; printf '\\254'").await;
        assert_eq!(text(&result.stdout), "€");
    });
}

#[test]
fn case_3_bytes_come_exactly() {
    with_guest(async |guest| {
        for (script, want) in
            [("printf 'a\\0b\\0c'", &b"a\0b\0c"[..]), ("printf '\\377\\376ok'", b"\xff\xfeok")]
        {
            let result = guest.sh(script).await;
            assert_eq!((result.stdout.head.as_slice(), result.exit_code), (want, 0), "{script}");
        }
        let result = guest.sh("head -c 4096 /dev/urandom | tee copy").await;
        assert_eq!(result.stdout.head, std::fs::read(guest.work.join("copy")).unwrap());
    });
}

#[test]
fn case_4_endless_output_is_bounded_and_counted() {
    with_guest(async |guest| {
        let result = guest.sh("head -c 300M /dev/zero; echo end").await;
        assert_eq!(result.stdout.total, (300 << 20) + 4);
        assert_eq!(result.stdout.head.len() + result.stdout.tail.len(), 1 << 20);
        assert!(result.stdout.tail.ends_with(b"\0end\n"));
        let result = guest.run(with_timeout("yes", 300)).await;
        assert_eq!(result.outcome, Outcome::TimedOut);
        assert!(result.stdout.total > 0 && result.stdout.head.starts_with(b"y\ny\n"));
        let resident = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap();
        let resident = resident.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kib: u64 = resident.trim().split(' ').next().unwrap().parse().unwrap();
        assert!(kib < 64 << 10, "the guest held {kib} KiB");
    });
}

#[test]
fn output_limits_are_the_callers() {
    with_guest(async |guest| {
        let limited =
            |limit| RunRequest { stdout_limit: limit, ..request(&["sh", "-c", "seq 1 100000"]) };
        let result = guest.run(limited(100)).await;
        assert_eq!((result.stdout.head.len(), result.stdout.tail.len()), (50, 50));
        assert!(result.stdout.tail.ends_with(b"\n100000\n"));
        let error = guest.client.run(&limited(1 << 40)).await.unwrap_err();
        assert!(error.to_string().contains("stdoutLimit"), "{error}");
    });
}

#[test]
fn case_7_no_terminal_is_faked() {
    with_guest(async |guest| {
        let result = guest.sh("test -t 1 || echo none; echo $TERM").await;
        assert_eq!(text(&result.stdout), "none\ndumb\n");
        let result = guest.sh("printf '\\033[31mred\\033[0m\\033]0;t\\007'").await;
        assert_eq!(text(&result.stdout), "\u{1b}[31mred\u{1b}[0m\u{1b}]0;t\u{7}");
    });
}

#[test]
fn case_9_the_last_piece_is_never_lost() {
    with_guest(async |guest| {
        for number in 0..300 {
            let result = guest.run(request(&["echo", &number.to_string()])).await;
            assert_eq!((text(&result.stdout), result.exit_code), (format!("{number}\n"), 0));
        }
        let script = "import time,sys; time.sleep(0.05); sys.stdout.write('x'*65536)";
        for _ in 0..20 {
            let result = guest.run(request(&["python3", "-c", script])).await;
            assert_eq!(result.stdout.total, 65536);
        }
    });
}

#[test]
fn case_104_python_output_is_there_after_a_timeout() {
    with_guest(async |guest| {
        let script = "python3 -c \"import time;print('hello');time.sleep(300)\"";
        let result = guest.run(with_timeout(script, 2000)).await;
        assert_eq!(
            (result.outcome, text(&result.stdout)),
            (Outcome::TimedOut, "hello\n".to_owned())
        );
    });
}

#[test]
fn standard_streams_can_be_opened_again() {
    with_guest(async |guest| {
        let result = guest.sh("echo out > /dev/stdout; echo err > /dev/stderr").await;
        assert_eq!((text(&result.stdout), text(&result.stderr)), ("out\n".into(), "err\n".into()));
    });
}
