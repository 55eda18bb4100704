//! Output handling: nothing lost, nothing changed, nothing unbounded.

use crate::common::*;

as_root!(
    case_01_characters_across_reads_stay_whole,
    case_03_bytes_that_are_no_text,
    case_04_endless_output_is_bounded,
    case_06_long_lines,
    case_07_control_sequences_and_no_terminal,
    case_09_last_output_of_quick_programs,
);
as_rootless!(case_01_characters_across_reads_stay_whole, case_09_last_output_of_quick_programs);

fn case_01_characters_across_reads_stay_whole(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let wide = "import sys\ns='a'*65535+'é'+'日本語\\n'*20000\n\
        for f in (sys.stdout,sys.stderr): f.buffer.write(s.encode()); f.flush()\n";
    mcp.write(&sandbox, "wide.py", wide);
    let run = mcp.sh(&sandbox, "python3 wide.py");
    let expected = format!("{}é{}", "a".repeat(65535), "日本語\n".repeat(20000));
    assert_eq!(run.exit_code, 0);
    assert!(run.stdout == expected, "standard output is equal, {} bytes", run.stdout.len());
    assert!(run.stderr == expected, "standard error is equal, {} bytes", run.stderr.len());

    let split =
        r"printf '\342\202'; printf '\342\202' >&2; sleep 0.3; printf '\254'; printf '\254' >&2";
    let run = mcp.sh(&sandbox, split);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("€", "€"));

    let unfinished = mcp.sh(&sandbox, r"printf 'ok\342\202'");
    assert!(
        unfinished.stdout.starts_with("ok") && unfinished.stdout.contains('\u{fffd}'),
        "{unfinished:?}"
    );
    mcp.end(home);
}

fn case_03_bytes_that_are_no_text(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let random = mcp.sh(&sandbox, "head -c 4096 /dev/urandom");
    assert_eq!(random.exit_code, 0);
    assert_eq!(random.stdout_bytes, 4096);
    assert_eq!(random.data["stdout_lossy"], json!(true), "{:?}", random.data);

    let nul = mcp.sh(&sandbox, r"printf 'a\0b\0c'; exit 3");
    assert_eq!((nul.stdout.as_str(), nul.exit_code), ("a\0b\0c", 3));
    assert_ne!(nul.data["stdout_lossy"], json!(true));

    let bad = mcp.sh(&sandbox, r"printf '\377\376ok'; printf '\377' >&2");
    assert_eq!(bad.stdout, "\u{fffd}\u{fffd}ok");
    assert_eq!(
        (&bad.data["stdout_lossy"], &bad.data["stderr_lossy"]),
        (&json!(true), &json!(true))
    );
    mcp.end(home);
}

fn case_04_endless_output_is_bounded(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.sh(&sandbox, "true").good();
    let before = memory_peak(mcp.pid());
    let size = 1_u64 << 30;
    let zeros: Vec<_> = (0..5)
        .map(|_| {
            mcp.start_sh(
                &sandbox,
                &format!("echo first; head -c {size} /dev/zero; echo last"),
                json!({"timeout_ms": 200_000}),
            )
        })
        .collect();
    let endless: Vec<_> = (0..5)
        .map(|_| {
            mcp.start_sh(
                &sandbox,
                "yes",
                json!({"timeout_ms": if long() { 10_000 } else { 3_000 }}),
            )
        })
        .collect();
    for id in zeros {
        let run = mcp.finish(id).run();
        assert_eq!(run.exit_code, 0);
        assert_eq!(run.stdout_bytes, size + 11);
        assert!(run.stdout_truncated);
        assert!(
            run.stdout.starts_with("first\n") && run.stdout.ends_with("last\n"),
            "head and tail are kept"
        );
        assert!(run.stdout.len() < 3 << 20, "{} bytes came back", run.stdout.len());
    }
    for id in endless {
        let run = mcp.finish(id).run();
        assert!(run.timed_out && run.stdout_truncated && run.stdout.starts_with("y\ny\n"));
    }
    // Ten calls with 1 MiB kept, once as bytes and a few times as JSON text: NUL is six bytes
    // there, in the text and in the structured form. Never all ten at once in all forms.
    let grown = memory_peak(mcp.pid()) - before;
    assert!(grown < 64 << 20, "the service grew by {grown} bytes");
    mcp.end(home);
}

fn case_06_long_lines(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let run = mcp.sh(&sandbox, "head -c 3000000 /dev/zero | tr '\\0' x");
    assert_eq!((run.exit_code, run.stdout_bytes), (0, 3_000_000));
    assert!(run.stdout_truncated && run.stdout.starts_with("xxx") && run.stdout.ends_with("xxx"));

    let line = "x\"'`$(id)é".repeat(300_000);
    mcp.write(&sandbox, "line", &line);
    assert_eq!(mcp.sh(&sandbox, "wc -c < line").good(), line.len().to_string());

    // Exactly the limit is accepted, one byte more is not, and the message after it is not lost.
    let limit = 8 << 20;
    for (length, accepted) in
        [(limit, true), (limit + 1, false), (limit + 70, false), (limit + (4 << 20), false)]
    {
        let id = mcp.fresh_id();
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"x":""#);
        let mut message = head.into_bytes();
        message.resize(length - 3, b'x');
        message.extend_from_slice(b"\"}}\n");
        let next = mcp.fresh_id();
        message.extend_from_slice(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{next},\"method\":\"ping\"}}\n").as_bytes(),
        );
        mcp.raw(&message);
        if accepted {
            assert!(mcp.reply(id).get("result").is_some(), "{length} bytes are accepted");
        } else {
            assert_eq!(mcp.null_error(), -32600, "{length} bytes are refused");
        }
        assert!(
            mcp.reply(next).get("result").is_some(),
            "the message after {length} bytes is answered"
        );
    }
    assert_eq!(mcp.sh(&sandbox, "echo still").good(), "still");
    mcp.end(home);
}

fn case_07_control_sequences_and_no_terminal(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let run = mcp.sh(&sandbox, r"printf '\033[31mred\033[0m\033[2K\033[?25l\033]0;t\007'");
    assert_eq!(run.good(), "\u{1b}[31mred\u{1b}[0m\u{1b}[2K\u{1b}[?25l\u{1b}]0;t\u{7}");
    let redraws = r#"i=0; while [ $i -lt 500 ]; do printf '%d%%\r' $i; i=$((i+1)); done"#;
    let expected: String = (0..500).map(|i| format!("{i}%\r")).collect();
    assert_eq!(mcp.sh(&sandbox, redraws).good(), expected);
    let terminal = "echo $TERM; python3 -c 'import sys; print([f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])'";
    assert_eq!(mcp.sh(&sandbox, terminal).good(), "dumb\n[False, False, False]");
    mcp.end(home);
}

fn case_09_last_output_of_quick_programs(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for start in (0..500).step_by(20) {
        let ids: Vec<_> = (start..start + 20)
            .map(|n| (n, mcp.start_sh(&sandbox, &format!("echo {n}"), json!({}))))
            .collect();
        for (n, id) in ids {
            assert_eq!(mcp.finish(id).run().good(), n.to_string());
        }
    }
    mcp.write(&sandbox, "late.py", "import os, time\ntime.sleep(0.2)\nos.write(1, b'z' * 65536)\n");
    for _ in 0..10 {
        let ids: Vec<_> =
            (0..10).map(|_| mcp.start_sh(&sandbox, "python3 late.py", json!({}))).collect();
        for id in ids {
            assert_eq!(mcp.finish(id).run().good().len(), 65536);
        }
    }
    mcp.end(home);
}
