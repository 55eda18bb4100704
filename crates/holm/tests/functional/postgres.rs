//! `holm serve` on a PostgreSQL server.

#[path = "../../../holm-store/tests/contract/support/cluster.rs"]
#[allow(dead_code, reason = "the store's own suite uses all of it")]
mod cluster;

use cluster::{Cluster, Kind};

use crate::common::{Home, as_root, json};

as_root!(accounts_keys_and_sandboxes_are_in_postgres, a_server_that_is_not_there_is_said);

fn accounts_keys_and_sandboxes_are_in_postgres(home: &Home) {
    let Some(cluster) = Cluster::start(Kind::Socket) else { return };
    let url = cluster.url("postgres");
    let env = [("HOLM_DATABASE", url.as_str())];
    let serve = home.serve(&[], &env);
    assert!(!home.data().join("holm.db").exists(), "it is not in a file");
    let key = serve.key.clone();
    let session = serve.session();
    serve.call(&session, "run_command", json!({"command": "echo on"})).run().good();
    serve.call(&session, "create_sandbox", json!({"name": "before"})).ok();
    serve.end();
    let serve = home.serve(&["--database", &url], &[]);
    assert_eq!(serve.key, key);
    let session = serve.session();
    let listed = serve.call(&session, "list_sandboxes", json!({"include_deleted": true}));
    assert_eq!(listed.ok()["sandboxes"][0]["name"], "before", "{listed:?}");
    assert!(!serve.stderr().contains(&url), "{}", serve.stderr());
    serve.end();
}

fn a_server_that_is_not_there_is_said(home: &Home) {
    let nowhere = home.dir.display().to_string().replace('/', "%2F");
    let url = format!("postgres://holm:x-marker-x@{nowhere}/holm");
    let mut command = home.command();
    command.args(["serve", "--port", "0"]).env("HOLM_DATABASE", &url);
    let exit = crate::common::finish(command, b"");
    assert_eq!(exit.code(), Some(1), "{}", exit.err());
    assert!(exit.err().contains("hint: check that the server runs"), "{}", exit.err());
    assert!(!exit.err().contains("x-marker-x"), "{}", exit.err());
}
