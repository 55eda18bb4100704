//! Commands in the background.

use holm_wire::background::{
    Command, GetRequest, InputRequest, KillRequest, MOST_ENDED, MOST_RUNNING, Part, StartRequest,
    State,
};
use holm_wire::client::ClientError;
use holm_wire::connect::Code;

use crate::harness::{Guest, running, with_guest};

fn shell(line: &str) -> StartRequest {
    let argv = ["/bin/sh", "-c", line].map(str::to_owned).to_vec();
    StartRequest { argv, ..StartRequest::default() }
}

async fn start(guest: &Guest, request: StartRequest) -> String {
    guest.client.start_background(&request).await.unwrap().id
}

async fn get(guest: &Guest, id: &str, from: u64) -> Command {
    let request = GetRequest {
        id: id.to_owned(),
        stdout_from: from,
        // Only standard output is waited for.
        stderr_from: u64::MAX,
        wait_ms: 60_000,
        ..GetRequest::default()
    };
    guest.client.get_background(&request).await.unwrap()
}

async fn to_its_end(guest: &Guest, id: &str) -> (String, Command) {
    let (mut text, mut from) = (String::new(), 0);
    loop {
        let now = get(guest, id, from).await;
        assert_eq!(now.stdout.from, from, "nothing is missed");
        from += now.stdout.bytes.len() as u64;
        text.push_str(&String::from_utf8(now.stdout.bytes.clone()).expect("whole characters"));
        if now.state != State::Running && from == now.stdout.total {
            return (text, now);
        }
    }
}

fn code_of<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Code {
    match result {
        Err(ClientError::Guest(error)) => error.code,
        other => panic!("{other:?} is no error of the guest"),
    }
}

#[test]
fn output_is_read_on_from_where_one_was() {
    with_guest(async |guest| {
        let id = start(guest, shell("for i in $(seq 300); do echo tick $i é; done; exit 3")).await;
        let (text, end) = to_its_end(guest, &id).await;
        let want: String = (1..=300).map(|i| format!("tick {i} é\n")).collect();
        assert_eq!(text, want);
        assert_eq!((end.state, end.exit_code, end.signal), (State::Exited, Some(3), None));
        assert!(end.command.starts_with("for i in"), "{}", end.command);
        // Once more, in small parts.
        let request = GetRequest { id, stdout_from: 5, max_bytes: 3, ..GetRequest::default() };
        let part = guest.client.get_background(&request).await.unwrap().stdout;
        assert_eq!(part, Part { from: 5, bytes: b"1 ".to_vec(), total: want.len() as u64 });
    });
}

#[test]
fn of_a_flood_the_newest_bytes_are_kept() {
    with_guest(async |guest| {
        let mut request = shell("head -c 20000000 /dev/zero; printf end");
        request.output_limit = 1000;
        let id = start(guest, request).await;
        let end = loop {
            let now = get(guest, &id, u64::MAX).await;
            if now.state != State::Running {
                break get(guest, &id, 0).await;
            }
        };
        assert_eq!((end.stdout.total, end.stdout.from), (20_000_003, 19_999_003));
        assert!(end.stdout.bytes.ends_with(b"\0end") && end.stdout.bytes.len() == 1000);
    });
}

#[test]
fn input_goes_in_and_ends() {
    with_guest(async |guest| {
        let mut request = shell("while read -r line; do echo got $line; done; echo over");
        request.stdin = true;
        let id = start(guest, request).await;
        let input = |data: &str, close| InputRequest {
            id: id.clone(),
            data: data.as_bytes().to_vec(),
            close,
        };
        guest.client.send_background_input(&input("one\n", false)).await.unwrap();
        let now = get(guest, &id, 0).await;
        assert_eq!((&*now.stdout.bytes, now.stdin_open), (&b"got one\n"[..], true));
        guest.client.send_background_input(&input("two\n", true)).await.unwrap();
        let (text, end) = to_its_end(guest, &id).await;
        assert_eq!(text, "got one\ngot two\nover\n");
        assert!(!end.stdin_open);
        let late = guest.client.send_background_input(&input("three\n", false)).await;
        assert_eq!(code_of(late), Code::OutOfRange);
        // One that has none from the start.
        let id = start(guest, shell("sleep 1000")).await;
        let none = InputRequest { id: id.clone(), data: b"x".to_vec(), close: false };
        assert_eq!(code_of(guest.client.send_background_input(&none).await), Code::OutOfRange);
        let kill = KillRequest { id, signal: String::new() };
        guest.client.kill_background(&kill).await.unwrap();
    });
}

#[test]
fn an_end_takes_all_that_was_started() {
    with_guest(async |guest| {
        let id = start(guest, shell("setsid sleep 51001 & sleep 51002 & echo up; wait")).await;
        assert_eq!(get(guest, &id, 0).await.stdout.bytes, b"up\n");
        // One that the program takes note of, and goes on.
        let term = KillRequest { id: id.clone(), signal: "SIGCONT".into() };
        assert_eq!(guest.client.kill_background(&term).await.unwrap().state, State::Running);
        let kill = KillRequest { id: id.clone(), signal: String::new() };
        let end = guest.client.kill_background(&kill).await.unwrap();
        assert_eq!((end.state, end.exit_code, end.signal), (State::Killed, Some(137), Some(9)));
        assert_eq!(running("sleep 51001") + running("sleep 51002"), 0);
        // Again is as good.
        assert_eq!(guest.client.kill_background(&kill).await.unwrap(), end);
        let odd = KillRequest { id: id.clone(), signal: "SIGNOPE".into() };
        assert_eq!(code_of(guest.client.kill_background(&odd).await), Code::InvalidArgument);
        // At its own time limit the same.
        let mut request = shell("sleep 51003 & wait");
        request.timeout_ms = 50;
        let id = start(guest, request).await;
        let end = to_its_end(guest, &id).await.1;
        assert_eq!((end.state, end.exit_code), (State::TimedOut, Some(137)));
        assert_eq!(running("sleep 51003"), 0);
    });
}

#[test]
fn what_cannot_be_started_says_so_and_what_is_not_there_is_not_found() {
    with_guest(async |guest| {
        let mut request = shell("true");
        request.cwd = Some("/no/such/directory".into());
        assert_eq!(code_of(guest.client.start_background(&request).await), Code::InvalidArgument);
        let id = start(guest, StartRequest { argv: vec!["no-such".into()], ..shell("") }).await;
        let (_, end) = to_its_end(guest, &id).await;
        assert_eq!(end.exit_code, Some(127));
        let missing = GetRequest { id: "cmd_99".into(), ..GetRequest::default() };
        assert_eq!(code_of(guest.client.get_background(&missing).await), Code::NotFound);
    });
}

#[test]
fn there_is_a_bound_of_those_that_run_and_of_those_that_are_over() {
    with_guest(async |guest| {
        let mut ids = Vec::new();
        for _ in 0..MOST_RUNNING {
            ids.push(start(guest, shell("exec sleep 51004")).await);
        }
        let more = guest.client.start_background(&shell("true")).await;
        assert_eq!(code_of(more), Code::ResourceExhausted);
        for id in &ids {
            let kill = KillRequest { id: id.clone(), signal: String::new() };
            guest.client.kill_background(&kill).await.unwrap();
        }
        let last = start(guest, shell("echo last")).await;
        assert_eq!(to_its_end(guest, &last).await.0, "last\n");
        let listed = guest.client.list_background().await.unwrap().commands;
        assert!(listed.len() <= MOST_ENDED, "{}", listed.len());
        assert_eq!(listed.last().unwrap().id, last);
        assert!(listed.iter().all(|command| command.stdout.bytes.is_empty()));
        let first = GetRequest { id: ids[0].clone(), ..GetRequest::default() };
        assert_eq!(code_of(guest.client.get_background(&first).await), Code::NotFound);
    });
}
