//! `holm mcp` whose client goes, in every way in which one can.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::process::Signal;

use crate::common::*;

as_root!(
    case_76_end_of_input,
    case_76_output_closed_first,
    case_76_the_parent_is_killed,
    case_76_input_from_nothing,
);
as_rootless!(case_76_end_of_input);

fn case_76_end_of_input(home: &Home) {
    for signal in [None, Some(Signal::TERM), Some(Signal::INT)] {
        let mut mcp = home.mcp();
        let sandbox = mcp.create();
        let running =
            mcp.start_sh(&sandbox, "touch /tmp/up; sleep 3000", json!({"timeout_ms": 600_000}));
        until("it runs", || {
            (mcp.sh(&sandbox, "ls /tmp/up 2>/dev/null | wc -l").stdout == "1\n").then_some(())
        });
        home.note_instances();
        match signal {
            None => mcp.close_stdin(),
            Some(signal) => mcp.signal(signal),
        }
        let status = mcp.wait();
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", mcp.stderr());
        mcp.assert_protocol_only();
        drop(mcp.reply_now(running));
        home.assert_clean();
    }
}

fn case_76_output_closed_first(home: &Home) {
    let mut child = home
        .command()
        .arg("mcp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    writeln!(stdin, r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"create_sandbox","arguments":{{}}}}}}"#).expect("it reads");
    let mut first = [0];
    stdout.read_exact(&mut first).expect("an answer");
    home.note_instances();
    drop(stdout);
    // Writing fails from now on; the next answer finds that nobody listens.
    while writeln!(stdin, r#"{{"jsonrpc":"2.0","id":2,"method":"ping"}}"#).is_ok() {
        if child.try_wait().expect("ours").is_some() {
            break;
        }
        std::thread::yield_now();
    }
    drop(stdin);
    let status = until("it ends", || child.try_wait().expect("ours"));
    assert_eq!(status.code(), Some(0));
    home.assert_clean();
}

/// Its client is killed together with all that it could have said. What is between them only tells
/// how it ended.
fn case_76_the_parent_is_killed(home: &Home) {
    let client = "import subprocess, sys, time\n\
        command = ['sh', '-c', '\"$0\" mcp --local; echo $? > code', sys.argv[1]]\n\
        holm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
        call = '{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\",\"arguments\":%s}}\\n'\n\
        holm.stdin.write((call % (1, 'create_sandbox', '{}')).encode()); holm.stdin.flush()\n\
        holm.stdout.readline()\n\
        held = '{\"command\":\"touch up; sleep 3000\",\"timeout_ms\":600000}'\n\
        holm.stdin.write((call % (2, 'run_command', held)).encode()); holm.stdin.flush()\n\
        print(holm.pid, flush=True)\n\
        time.sleep(3600)\n";
    let mut command = home.command_of(std::path::Path::new("python3"));
    command.arg("-c").arg(client).arg(&home.program);
    let mut client = command.stdout(Stdio::piped()).spawn().expect("python3 is there");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(client.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("its word");
    let shell: u32 = line.trim().parse().unwrap_or_else(|_| panic!("no process id: {line:?}"));
    home.note_instances();
    let holm = children(shell).first().expect("holm runs").0;
    until("the command runs", || {
        descendants(holm).iter().any(|(pid, _)| command_line(*pid) == "sleep 3000").then_some(())
    });
    client.kill().expect("it is our child");
    client.wait().expect("it is our child");
    let code = until("it ends", || {
        let code = std::fs::read_to_string(home.dir.join("code")).ok()?;
        code.ends_with('\n').then_some(code)
    });
    assert_eq!(code, "0\n");
    home.assert_clean();
}

fn case_76_input_from_nothing(home: &Home) {
    let mut command = home.command();
    command.arg("mcp").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let out = command.output().expect("it runs");
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(out.stdout.is_empty());
}
