//! `process.Process`.

use std::time::Duration;

use holm_wire::client::{ClientError, EventStream};
use holm_wire::connect::{Code, envelope};
use holm_wire::process::{
    DataEvent, EndEvent, ListResponse, ProcessConfig, ProcessEvent, ProcessInput, ProcessSelector,
    Pty, PtySize, SelectRequest, StartRequest,
};

use crate::harness::{Guest, running, with_guest};

fn shell(script: &str) -> StartRequest {
    let process = ProcessConfig {
        cmd: "/bin/bash".into(),
        args: vec!["-c".into(), script.into()],
        ..ProcessConfig::default()
    };
    StartRequest { process, ..StartRequest::default() }
}

async fn start(guest: &Guest, request: StartRequest) -> (u32, EventStream) {
    let mut stream = guest.client.start(&request, "").await.unwrap();
    match stream.next().await.unwrap() {
        Some(ProcessEvent::Start(start)) => (start.pid, stream),
        other => panic!("the first event is {other:?}"),
    }
}

/// Standard output and error (a terminal's output counts as output), and the end.
async fn rest(stream: &mut EventStream) -> (Vec<u8>, Vec<u8>, EndEvent) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match stream.next().await.unwrap().expect("an end event") {
            ProcessEvent::Data(DataEvent::Stdout(bytes) | DataEvent::Pty(bytes)) => {
                out.extend(bytes);
            }
            ProcessEvent::Data(DataEvent::Stderr(bytes)) => err.extend(bytes),
            ProcessEvent::End(end) => {
                assert_eq!(stream.next().await.unwrap(), None);
                return (out, err, end);
            }
            ProcessEvent::Start(_) | ProcessEvent::Keepalive(_) => {}
        }
    }
}

#[test]
fn a_program_is_followed_to_its_end() {
    with_guest(async |guest| {
        let (_, mut stream) = start(guest, shell("echo out; echo err >&2; exit 3")).await;
        let (out, err, end) = rest(&mut stream).await;
        assert_eq!((out.as_slice(), err.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!((end.exit_code, end.exited, end.status.as_str()), (3, true, "exit status 3"));
        let (_, mut stream) = start(guest, shell("head -c 30M /dev/zero")).await;
        assert_eq!(rest(&mut stream).await.0.len(), 30 << 20);
    });
}

#[test]
fn case_1_streamed_parts_hold_whole_characters() {
    with_guest(async |guest| {
        let script = "printf 'x\\342\\202'; sleep 0.3; printf '\\254y'; printf '\\303' >&2";
        let (_, mut stream) = start(guest, shell(script)).await;
        let mut parts = Vec::new();
        let mut error = Vec::new();
        while let Some(event) = stream.next().await.unwrap() {
            match event {
                ProcessEvent::Data(DataEvent::Stdout(bytes)) => parts.push(bytes),
                ProcessEvent::Data(DataEvent::Stderr(bytes)) => error.extend(bytes),
                _ => {}
            }
        }
        for part in &parts {
            assert!(std::str::from_utf8(part).is_ok(), "{part:?}");
        }
        assert_eq!(parts.concat(), "x€y".as_bytes());
        assert_eq!(error, [0xc3], "what is never finished comes at the end");
    });
}

#[test]
fn input_is_fed_and_closed() {
    with_guest(async |guest| {
        let (pid, mut stream) = start(guest, shell("read line; echo got:$line; cat")).await;
        let send = async |bytes: &[u8]| {
            guest.client.send_input(pid, ProcessInput::Stdin(bytes.to_vec())).await
        };
        send(b"one\n").await.unwrap();
        send(b"two").await.unwrap();
        guest.client.close_stdin(pid).await.unwrap();
        let (out, _, end) = rest(&mut stream).await;
        assert_eq!((out.as_slice(), end.exit_code), (&b"got:one\ntwo"[..], 0));
        assert_eq!(send(b"x").await.unwrap_err().code(), Some(Code::NotFound));
        let (pid, mut stream) =
            start(guest, StartRequest { stdin: Some(false), ..shell("cat; sleep 0.2") }).await;
        let error = guest.client.send_input(pid, ProcessInput::Stdin(b"x".to_vec())).await;
        assert_eq!(error.unwrap_err().code(), Some(Code::FailedPrecondition));
        assert_eq!(rest(&mut stream).await.2.exit_code, 0);
    });
}

#[test]
fn input_is_fed_in_one_stream() {
    with_guest(async |guest| {
        let head = "Content-Type: application/connect+json\r\n";
        let feed = |messages: &[String]| {
            let frames: Vec<u8> =
                messages.iter().flat_map(|text| envelope(0, text.as_bytes())).collect();
            let (status, answer) =
                guest.http("POST", "/process.Process/StreamInput", head, &frames);
            assert_eq!(status, 200, "{answer}");
            answer
        };
        let data = |text: &str| {
            let text = base64(text);
            format!("{{\"data\":{{\"input\":{{\"stdin\":\"{text}\"}}}}}}")
        };
        let keepalive = || "{\"keepalive\":{}}".to_owned();
        let (pid, mut stream) = start(guest, shell("head -n 2000")).await;
        let select = |pid: u32| format!("{{\"start\":{{\"process\":{{\"pid\":{pid}}}}}}}");
        let mut messages = vec![keepalive(), select(pid), keepalive()];
        messages.extend((0..2000).map(|number| data(&format!("{number}\n"))));
        let answer = feed(&messages);
        assert!(!answer.contains("error") && answer.ends_with("{}"), "{answer}");
        let (out, _, end) = rest(&mut stream).await;
        let want: String = (0..2000).map(|number| format!("{number}\n")).collect();
        assert!(out == want.as_bytes() && end.exit_code == 0, "the order is kept");
        let (pid, mut stream) = start(guest, shell("cat")).await;
        let pty = "{\"data\":{\"input\":{\"pty\":\"eA==\"}}}".to_owned();
        for (what, messages, want) in [
            ("nothing", vec![], "invalid_argument"),
            ("no start", vec![data("x")], "invalid_argument"),
            ("only keepalives", vec![keepalive()], "invalid_argument"),
            ("two starts", vec![select(pid), select(pid)], "invalid_argument"),
            ("nobody", vec![select(1), data("x")], "not_found"),
            ("no terminal", vec![select(pid), pty], "invalid_argument"),
            ("not a message", vec!["7".to_owned()], "invalid_argument"),
        ] {
            let answer = feed(&messages);
            assert!(answer.contains(want), "{what}: {answer}");
        }
        for (what, body) in
            [("a cut message", &b"\0\0\0\0\x09{}"[..]), ("a long one", b"\0\xff\0\0\0")]
        {
            let (status, answer) = guest.http("POST", "/process.Process/StreamInput", head, body);
            assert!(status == 200 && answer.contains("invalid_argument"), "{what}: {answer}");
        }
        guest.client.close_stdin(pid).await.unwrap();
        assert_eq!(rest(&mut stream).await.0, b"", "nothing of the refused streams was fed");
    });
}

fn base64(text: &str) -> String {
    let input = ProcessInput::Stdin(text.as_bytes().to_vec());
    let value = serde_json::to_value(&input).unwrap();
    value["stdin"].as_str().unwrap().to_owned()
}

#[test]
fn signals_reach_the_group_and_kill_reaches_all() {
    with_guest(async |guest| {
        let (pid, mut stream) =
            start(guest, shell("trap 'echo int; exit 5' INT; while :; do sleep 0.05; done")).await;
        // The trap must be set before the signal comes: a second start proves nothing, so wait.
        tokio::time::sleep(Duration::from_millis(300)).await;
        guest.client.send_signal(pid, "SIGNAL_SIGINT").await.unwrap();
        let (out, _, end) = rest(&mut stream).await;
        assert_eq!((out.as_slice(), end.exit_code), (&b"int\n"[..], 5));
        let (pid, mut stream) = start(guest, shell("setsid sleep 3221 & sleep 3221")).await;
        guest.client.send_signal(pid, "SIGNAL_SIGKILL").await.unwrap();
        let end = rest(&mut stream).await.2;
        assert_eq!(
            (end.exit_code, end.exited, end.status.as_str()),
            (137, false, "signal: killed")
        );
        guest.wait_gone("sleep 3221").await;
        let error = guest.client.send_signal(pid, "SIGNAL_SIGKILL").await.unwrap_err();
        assert_eq!(error.code(), Some(Code::NotFound));
        assert_eq!(
            guest.client.send_signal(pid, "NOPE").await.unwrap_err().code(),
            Some(Code::InvalidArgument)
        );
    });
}

#[test]
fn a_caller_that_leaves_does_not_end_the_program() {
    with_guest(async |guest| {
        let (pid, stream) = start(guest, shell("sleep 0.3; echo late > late; sleep 3222")).await;
        drop(stream);
        let began = std::time::Instant::now();
        while !guest.work.join("late").exists() || running("sleep 3222") == 0 {
            assert!(began.elapsed() < crate::harness::HANG);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guest.client.send_signal(pid, "SIGNAL_SIGKILL").await.unwrap();
    });
}

#[test]
fn a_deadline_ends_the_program_with_all_it_started() {
    with_guest(async |guest| {
        let body = serde_json::to_vec(&shell("setsid sleep 3223 & echo part; sleep 3223")).unwrap();
        let framed = envelope(0, &body);
        let headers = "Content-Type: application/connect+json\r\nConnect-Timeout-Ms: 400\r\n";
        let (status, answer) = guest.http("POST", "/process.Process/Start", headers, &framed);
        assert_eq!(status, 200);
        assert!(answer.contains("deadline_exceeded") && answer.contains("stdout"), "{answer}");
        guest.wait_gone("sleep 3223").await;
    });
}

#[test]
fn programs_are_listed_and_found_again() {
    with_guest(async |guest| {
        let (pid, mut stream) =
            start(guest, StartRequest { tag: Some("mine".into()), ..shell("read x; exit 4") })
                .await;
        let limits = holm_wire::client::CallLimits::default();
        let list = async || -> ListResponse {
            guest
                .client
                .unary("/process.Process/List", "", &holm_wire::process::Empty {}, limits)
                .await
                .unwrap()
        };
        let listed = list().await.processes;
        assert_eq!((listed.len(), listed[0].pid, listed[0].tag.as_deref()), (1, pid, Some("mine")));
        let select = |process| serde_json::to_vec(&SelectRequest { process }).unwrap();
        guest.client.close_stdin(pid).await.unwrap();
        assert_eq!(rest(&mut stream).await.2.exit_code, 4);
        let headers = "Content-Type: application/connect+json\r\n";
        for process in
            [ProcessSelector::pid(pid), ProcessSelector { pid: None, tag: Some("mine".into()) }]
        {
            let framed = envelope(0, &select(process));
            let (_, answer) = guest.http("POST", "/process.Process/Connect", headers, &framed);
            assert!(answer.contains("\"exitCode\":4"), "{answer}");
        }
        let framed = envelope(0, &select(ProcessSelector::pid(1)));
        let (status, answer) = guest.http("POST", "/process.Process/Connect", headers, &framed);
        assert!(status == 200 && answer.contains("not_found"), "{answer}");
        assert!(list().await.processes.is_empty());
    });
}

#[test]
fn a_terminal_is_one() {
    with_guest(async |guest| {
        let size = |cols, rows| PtySize { cols, rows };
        let request = StartRequest {
            pty: Some(Pty { size: size(70, 20) }),
            ..shell("tty; stty size; echo $TERM; read x; stty size; tty -s < /dev/tty && echo own")
        };
        let (pid, mut stream) = start(guest, request).await;
        guest.client.resize(pid, size(90, 30)).await.unwrap();
        let wrong = guest.client.send_input(pid, ProcessInput::Stdin(b"x".to_vec())).await;
        assert_eq!(wrong.unwrap_err().code(), Some(Code::InvalidArgument));
        guest.client.send_input(pid, ProcessInput::Pty(b"\n".to_vec())).await.unwrap();
        let (out, _, end) = rest(&mut stream).await;
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.contains("/dev/pts/") && out.contains("xterm-256color") && out.contains("30 90"),
            "{out}"
        );
        assert!(out.contains("own") && end.exit_code == 0, "{out}");
    });
}

#[test]
fn what_cannot_start_says_so() {
    with_guest(async |guest| {
        let mut request = shell("true");
        request.process.cwd = Some("/no/such/place".into());
        let mut stream = guest.client.start(&request, "").await.unwrap();
        match stream.next().await {
            Err(ClientError::Guest(error)) => {
                assert_eq!(error.code, Code::InvalidArgument);
                assert!(error.message.contains("/no/such/place"));
            }
            other => panic!("{other:?}"),
        }
    });
}
