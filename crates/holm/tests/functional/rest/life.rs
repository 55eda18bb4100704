//! Creates and ends over REST: cut off, at once, too many, too slow.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Rest, error_is};
use crate::common::{
    Answer, Client, GUARD, Home, Value, as_root, as_rootless, at_once, descendants, json, name,
    receive, until,
};

as_root!(
    case_58_creates_whose_callers_went_away_leave_nothing,
    case_60_destroying_what_is_being_made_or_has_expired,
    case_62_the_lifetime_counts_from_ready_however_slow_the_start,
    case_66_failing_creates_leave_nothing,
    case_67_each_create_is_its_own,
    case_68_the_count_is_never_passed,
);
as_rootless!(case_58_creates_whose_callers_went_away_leave_nothing);

fn create(client: &Client, body: &Value) -> Answer {
    client.rest("POST", "/v1/sandboxes", body)
}

fn listed(client: &Client) -> Vec<(String, String)> {
    let list = client.rest("GET", "/v1/sandboxes?limit=1000", &Value::Null).json();
    let text = |row: &Value, key: &str| row[key].as_str().expect("text").to_owned();
    let rows = list["sandboxes"].as_array().expect("a list").iter();
    rows.map(|row| (text(row, "id"), text(row, "status"))).collect()
}

fn destroy(client: &Client, id: &str) {
    let gone = client.rest("DELETE", &format!("/v1/sandboxes/{id}"), &Value::Null);
    assert_eq!(gone.status, 200, "{gone:?}");
}

fn nothing_is_left(home: &Home, client: &Client) {
    until("nothing is listed", || listed(client).is_empty().then_some(()));
    until("nothing is on the host", || home.recorded().is_empty().then_some(()));
}

/// The answer, if it comes within that time; then the client hangs up.
fn patient(mut stream: TcpStream, patience: Duration) -> Option<Answer> {
    stream.set_read_timeout(Some(patience)).expect("a time");
    let mut first = [0];
    if !matches!(stream.peek(&mut first), Ok(1)) {
        return None;
    }
    stream.set_read_timeout(Some(GUARD)).expect("a time");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8(bytes).expect("text");
    let body = text.split_once("\r\n\r\n").expect("a head").1.to_owned();
    let status = text.split(' ').nth(1).expect("a status").parse().expect("a number");
    Some(Answer { status, headers: Default::default(), body })
}

/// One whose answer was written at the moment when its caller went away cannot be told from one that
/// the caller has: it is listed, and goes when its lease ends.
fn case_58_creates_whose_callers_went_away_leave_nothing(home: &Home) {
    std::fs::write(home.data().join("config.toml"), "[sandboxes]\nlifetime_min = '1s'\n")
        .expect("written");
    let serve = home.serve(&[], &[]);
    let json = [("content-type", "application/json")];
    let answered = at_once(4, |_| {
        let mut answered = 0;
        for n in 0..50 {
            let patience = Duration::from_millis([10, 50, 200][n % 3]);
            let sent = serve.send("POST", "/v1/sandboxes", &json, r#"{"timeout_seconds": 60}"#);
            let Some(answer) = patient(sent, patience) else { continue };
            // Where undoing is slower than hanging up, those given up count until they are gone.
            if answer.status == 429 {
                error_is(&answer, 429, "quota_exceeded");
                until("some are undone", || (listed(&serve).len() < 20).then_some(()));
                continue;
            }
            // It was there in time: the caller knows its sandbox.
            assert_eq!(answer.status, 201, "{answer:?}");
            destroy(&serve, answer.json()["id"].as_str().expect("an id"));
            answered += 1;
        }
        answered
    });
    println!("{} of 200 were answered in time", answered.iter().sum::<usize>());
    nothing_is_left(home, &serve);
    // All of the quota is free again.
    let all = at_once(20, |_| create(&serve, &json!({})).status);
    assert_eq!(all, vec![201; 20]);
    error_is(&create(&serve, &json!({})), 429, "quota_exceeded");
    serve.end();
}

fn case_60_destroying_what_is_being_made_or_has_expired(home: &Home) {
    std::fs::write(home.data().join("config.toml"), "[sandboxes]\nlifetime_min = '1s'\n")
        .expect("written");
    let serve = home.serve(&[], &[]);
    // Made and destroyed by others all the time, until some were caught while they were made.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let making: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut stopped = 0;
                    while !over.load(Ordering::SeqCst) {
                        let made = create(&serve, &json!({}));
                        match made.status {
                            201 => {}
                            410 => stopped += 1,
                            _ => panic!("{made:?}"),
                        }
                    }
                    stopped
                })
            })
            .collect();
        let mut caught = 0;
        until("some are caught while they are made", || {
            for (id, status) in listed(&serve) {
                caught += usize::from(status == "provisioning");
                destroy(&serve, &id);
                // Success is only said when it is gone.
                let state = serve.rest("GET", &format!("/v1/sandboxes/{id}"), &Value::Null);
                assert!(state.status == 404 || state.json()["status"] == "deleted", "{state:?}");
                assert!(!home.recorded().contains(&id), "{id} is still there");
            }
            (caught >= 5).then_some(())
        });
        over.store(true, Ordering::SeqCst);
        let stopped: usize = making.into_iter().map(|one| one.join().expect("no panic")).sum();
        assert!(stopped > 0, "each was ready before it was destroyed");
    });
    listed(&serve).iter().for_each(|(id, _)| destroy(&serve, id));
    nothing_is_left(home, &serve);
    // Right after it has expired: by whom it ended is told as it was.
    let made = serve.stateless("create_sandbox", &json!({"timeout": 1})).tool();
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let path = format!("/v1/sandboxes/{id}");
    until("it expires", || {
        (serve.rest("GET", &path, &Value::Null).json()["status"] != "running").then_some(())
    });
    let answers = at_once(8, |_| serve.rest("DELETE", &path, &Value::Null));
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        let told = answer.json();
        assert_eq!(told["already_destroyed"], true, "{told}");
        assert_eq!(told["ended_reason"], "expired", "{told}");
    }
    nothing_is_left(home, &serve);
    serve.end();
}

fn case_62_the_lifetime_counts_from_ready_however_slow_the_start(home: &Home) {
    std::fs::write(home.data().join("config.toml"), "[sandboxes]\nlifetime_min = '1s'\n")
        .expect("written");
    let serve = home.serve(&[], &[]);
    let launcher = descendants(serve.pid())
        .into_iter()
        .find(|(pid, _)| name(*pid) == "holm-launcher")
        .expect("a launcher")
        .0;
    let launcher = Pid::from_raw(i32::try_from(launcher).expect("an id")).expect("not zero");
    let lifetime = 4;
    // A start that takes longer than the sandbox is to live.
    kill_process(launcher, Signal::STOP).expect("it is ours");
    let begun = std::time::Instant::now();
    let arguments = json!({"timeout": lifetime});
    let made = std::thread::scope(|scope| {
        let making = scope.spawn(|| serve.stateless("create_sandbox", &arguments).tool());
        until("the lifetime is over before it began", || {
            (begun.elapsed().as_secs() > lifetime).then_some(())
        });
        kill_process(launcher, Signal::CONT).expect("it is ours");
        making.join().expect("no panic")
    });
    let sandbox = Rest::of(&serve, made.ok()["sandbox_id"].as_str().expect("an id"));
    assert_eq!(sandbox.good("echo usable"), "usable\n");
    let view = sandbox.ask("GET", "", &Value::Null).json();
    let at = |key: &str| {
        let text = view[key].as_str().unwrap_or_else(|| panic!("{key} of {view}"));
        text.parse::<jiff::Timestamp>().expect("a time")
    };
    let seconds = |from: &str, to: &str| at(to).duration_since(at(from)).as_secs();
    assert!(seconds("created_at", "ready_at") >= 4, "it was not slow: {view}");
    assert_eq!(seconds("ready_at", "expires_at"), 4, "{view}");
    serve.end();
}

fn case_66_failing_creates_leave_nothing(home: &Home) {
    let serve = home.serve(&["--max-sandboxes", "10"], &[]);
    for (body, status, name) in [
        (json!({"template": "no-such-template"}), 404, "template_unknown"),
        (json!({"env": {"A=B": "x"}}), 400, "invalid_request"),
        (json!({"env": {"A": "x\u{0}"}}), 400, "invalid_request"),
        (json!({"env": "A=B"}), 400, "invalid_request"),
        (json!({"size": "gigantic"}), 400, "invalid_request"),
        (json!({"memory_mb": 100_000_000}), 400, "invalid_request"),
        (json!({"cpu": 1000}), 400, "invalid_request"),
        (json!({"network": "closed"}), 400, "invalid_request"),
        (json!({"network": {"mode": "open", "allow": ["a.example"]}}), 400, "invalid_request"),
        (json!({"timeout_minutes": 1441}), 400, "invalid_request"),
    ] {
        error_is(&create(&serve, &body), status, name);
    }
    nothing_is_left(home, &serve);
    let answers = at_once(50, |_| create(&serve, &json!({})));
    let mut made = BTreeSet::new();
    for answer in answers {
        if answer.status == 201 {
            made.insert(answer.json()["id"].as_str().expect("an id").to_owned());
            continue;
        }
        error_is(&answer, 429, "quota_exceeded");
        let text = answer.json()["error"]["message"].as_str().expect("text").to_owned();
        assert!(text.contains("10"), "the limit is named: {text}");
    }
    assert_eq!(made.len(), 10);
    let known: BTreeSet<String> = listed(&serve).into_iter().map(|(id, _)| id).collect();
    assert_eq!((&known, &home.recorded()), (&made, &made));
    for id in &made {
        assert_eq!(Rest::of(&serve, id).good("echo ok"), "ok\n");
    }
    let usage = serve.rest("GET", "/v1/usage", &Value::Null).json();
    assert_eq!(usage["sandboxes_total"], 10, "failed ones count nothing: {usage}");
    serve.end();
}

fn case_67_each_create_is_its_own(home: &Home) {
    let serve = home.serve(&["--max-sandboxes", "150"], &[]);
    let sandboxes: Vec<Rest<'_>> = at_once(100, |_| {
        let sandbox = Rest::new(&serve, &json!({}));
        assert_eq!(sandbox.good("ls -A /workspace /tmp | wc -l"), "3\n", "an earlier user's file");
        let write = json!({"path": "own", "content": sandbox.id});
        assert_eq!(sandbox.ask("PUT", "/files", &write).status, 200);
        sandbox
    });
    let different: BTreeSet<&str> = sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
    assert_eq!(different.len(), 100);
    for _ in 0..3 {
        at_once(100, |n| {
            let read = sandboxes[n].ask("GET", "/files?path=own", &Value::Null).json();
            assert_eq!(read["content"], json!(sandboxes[n].id));
            let raw = receive(sandboxes[n].download("path=own"));
            assert_eq!(raw.body, sandboxes[n].id);
        });
    }
    serve.end();
}

fn case_68_the_count_is_never_passed(home: &Home) {
    std::fs::write(home.data().join("config.toml"), "[sandboxes]\nlifetime_min = '1s'\n")
        .expect("written");
    let serve = home.serve(&["--max-sandboxes", "5"], &[]);
    for round in 0..20 {
        let answers = at_once(50, |n| {
            if n == 25 {
                assert!(listed(&serve).len() <= 5, "round {round}");
            }
            match n % 10 {
                8 => create(&serve, &json!({"template": "no-such-template"})).status == 201,
                9 => !serve.stateless("create_sandbox", &json!({"timeout": 1})).tool().is_error(),
                _ => create(&serve, &json!({})).status == 201,
            }
        });
        let good = answers.iter().filter(|made| **made).count();
        // Room may have come by one that expired meanwhile.
        assert!(good <= 10 && home.recorded().len() <= 5, "round {round}: {good} were made");
        listed(&serve).iter().for_each(|(id, _)| destroy(&serve, id));
        until("none is left", || listed(&serve).is_empty().then_some(()));
        let full: Vec<_> = (0..5).map(|_| Rest::new(&serve, &json!({}))).collect();
        error_is(&create(&serve, &json!({})), 429, "quota_exceeded");
        full.iter().for_each(|sandbox| destroy(&serve, &sandbox.id));
    }
    nothing_is_left(home, &serve);
    serve.end();
}
