//! `holm serve` killed while it makes a snapshot: the sandbox goes on, and nothing of it is left.

use std::collections::BTreeSet;

use rustix::process::Signal;

use crate::common::*;
use crate::{helpers, kill};

as_root!(killed_while_a_snapshot_is_made);
as_rootless!(killed_while_a_snapshot_is_made);

fn below(home: &Home, dir: &str) -> BTreeSet<String> {
    let list = std::fs::read_dir(home.data().join("images").join(dir)).into_iter().flatten();
    list.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn killed_while_a_snapshot_is_made(home: &Home) {
    let keep = ["--on-stop", "keep"];
    let mut serve = home.serve(&keep, &[]);
    let session = serve.session();
    let made = serve.call(&session, "create_sandbox", json!({"timeout_minutes": 10}));
    let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let sh = |serve: &Serve, session: &str, command: &str| {
        let arguments = json!({"sandbox_id": id, "command": command});
        serve.call(session, "run_command", arguments).run().good().to_owned()
    };
    let count = "(i=0; while :; do i=$((i+1)); echo $i > n; sleep 0.02; done) >/dev/null 2>&1 &";
    sh(&serve, &session, &format!("head -c 300000000 /dev/urandom > large; {count}"));
    // The service alone, then all that it has started.
    for all in [false, true] {
        let session = serve.session();
        let arguments = json!({"sandbox_id": id, "name": "half"});
        let call = serve.start(&session, "snapshot_sandbox", arguments);
        until("a draft", || (!below(home, "drafts").is_empty()).then_some(()));
        let helpers = helpers(serve.pid());
        serve.signal(Signal::KILL);
        if all {
            helpers.into_iter().for_each(kill);
        }
        serve.wait();
        drop(call);
        serve = home.serve(&keep, &[]);
        let session = serve.session();
        // It goes on, whoever had stopped it.
        let seen = sh(&serve, &session, "cat n");
        until("it to count on", || (sh(&serve, &session, "cat n") != seen).then_some(()));
        until("what was half made to be gone", || {
            let left =
                ["drafts", "layers", "templates"].iter().any(|dir| !below(home, dir).is_empty());
            (!left).then_some(())
        });
    }
    let session = serve.session();
    let arguments = json!({"sandbox_id": id, "name": "whole"});
    serve.call(&session, "snapshot_sandbox", arguments).ok();
    serve.call(&session, "delete_snapshot", json!({"name": "whole"})).ok();
    assert!(below(home, "layers").is_empty(), "{:?}", below(home, "layers"));
    serve.call(&session, "destroy_sandbox", json!({"sandbox_id": id})).ok();
    serve.end();
}
