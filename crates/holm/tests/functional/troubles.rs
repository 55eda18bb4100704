//! A service whose database gives trouble.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{
    Home, Serve, Value, as_root, as_rootless, command_line, descendants, is_alive, json, name,
    parent, until,
};

as_root!(readiness_is_what_the_database_says, a_record_that_cannot_be_settled_stops_nothing,);
as_rootless!(readiness_is_what_the_database_says);

/// Runs a program of Python with the database's path.
fn python(home: &Home, text: &str) -> Command {
    let mut command = home.command_of(std::path::Path::new("python3"));
    command.args(["-c", text]).arg(home.data().join("holm.db"));
    command
}

fn status(serve: &Serve, path: &str) -> (u16, String) {
    let answer = serve.ask("GET", path, &[], "");
    (answer.status, answer.json()["status"].as_str().expect("a word").to_owned())
}

fn readiness_is_what_the_database_says(home: &Home) {
    let serve = home.serve(&[], &[]);
    assert_eq!(status(&serve, "/ready"), (200, "ready".to_owned()));
    // Somebody holds the database until told to let go.
    let hold = "import sqlite3, sys\n\
        held = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        held.execute('PRAGMA busy_timeout = 60000')\n\
        held.execute('BEGIN IMMEDIATE')\n\
        print('held', flush=True)\n\
        sys.stdin.read()\n";
    let mut command = python(home, hold);
    let mut holder = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut said = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut said).expect("held");
    until("it is not ready", || (status(&serve, "/ready").0 == 503).then_some(()));
    assert_eq!(status(&serve, "/ready"), (503, "database_unavailable".to_owned()));
    // What needs no database goes on.
    assert_eq!(status(&serve, "/health"), (200, "ok".to_owned()));
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it is our child").success());
    until("it is ready again", || (status(&serve, "/ready").0 == 200).then_some(()));
    serve.end();
}

fn a_record_that_cannot_be_settled_stops_nothing(home: &Home) {
    let mut serve = home.serve(&["--on-stop", "keep"], &[]);
    let made = |serve: &Serve| {
        let made = serve.stateless("create_sandbox", &json!({})).tool();
        made.ok()["sandbox_id"].as_str().expect("an id").to_owned()
    };
    let (lost, kept, stubborn) = (made(&serve), made(&serve), made(&serve));
    let state = |serve: &Serve, id: &str| -> Value {
        let view = serve.rest("GET", &format!("/v1/sandboxes/{id}"), &Value::Null);
        view.json()["status"].clone()
    };
    // One dies while no service runs, and the database refuses whatever is to be written about it.
    let run = json!({"sandbox_id": lost, "command": "exec sleep 4242", "background": true});
    serve.stateless("run_command", &run).tool().ok();
    let mut init = until("its process on the host", || {
        let all = descendants(serve.pid()).into_iter();
        all.map(|(pid, _)| pid).find(|pid| command_line(*pid) == "sleep 4242")
    });
    // Up to PID 1 of the sandbox, whose parent is the keeper.
    while let Some(parent) = parent(init)
        && name(parent) != "holm-keeper"
    {
        init = parent;
    }
    home.note_instances();
    serve.signal(Signal::KILL);
    serve.wait();
    let pid = Pid::from_raw(i32::try_from(init).expect("an id")).expect("not zero");
    kill_process(pid, Signal::KILL).expect("it is a sandbox of ours");
    until("it to be gone", || (!is_alive(init)).then_some(()));
    let refuse = "import sqlite3, sys\n\
        with sqlite3.connect(sys.argv[1]) as database:\n\
        \x20   database.execute(f\"\"\"CREATE TRIGGER refuse BEFORE UPDATE ON sandboxes\n\
        \x20       WHEN old.id LIKE '%{sys.argv[2]}'\n\
        \x20       BEGIN SELECT RAISE(ABORT, 'refused by a test'); END\"\"\")\n";
    let done = python(home, refuse).arg(&lost[4..]).status().expect("python3 is there");
    assert!(done.success(), "no trigger");
    let serve = home.serve(&["--on-stop", "keep"], &[]);
    home.note_instances();
    until("it is said", || serve.stderr().contains("not settled").then_some(()));
    for id in [&kept, &stubborn] {
        assert_eq!(state(&serve, id), "running");
        let ran = json!({"sandbox_id": id, "command": "echo here"});
        assert_eq!(serve.stateless("run_command", &ran).tool().run().good(), "here");
    }
    assert_eq!(state(&serve, &lost), "running", "as it is recorded");
    let fresh = made(&serve);
    assert_eq!(state(&serve, &fresh), "running");
    // As soon as the database takes it, it is settled: lost, since it was last seen.
    let allow = "import sqlite3, sys\n\
        with sqlite3.connect(sys.argv[1]) as database:\n\
        \x20   database.execute('DROP TRIGGER refuse')\n";
    assert!(python(home, allow).status().expect("python3 is there").success());
    until("it is settled", || (state(&serve, &lost) == "failed").then_some(()));
    let view = serve.rest("GET", &format!("/v1/sandboxes/{lost}"), &Value::Null).json();
    assert_eq!(view["ended_reason"], "lost", "{view}");
    for id in [kept, stubborn, fresh] {
        serve.stateless("destroy_sandbox", &json!({"sandbox_id": id})).tool().ok();
    }
    serve.end();
}
