//! A service that comes, goes and comes back; the client on stdio stays.

use rustix::process::Signal;

use crate::common::{Home, as_root, json, until};
use crate::peer::Pipe;
use crate::{client, end, service};

as_root!(
    case_84_a_new_session_after_a_restart,
    a_service_that_is_not_there_yet,
    a_service_that_dies_under_a_call,
    a_restart_without_a_default_sandbox_is_not_noticed,
);

fn case_84_a_new_session_after_a_restart(home: &Home) {
    let first = service(home);
    let pipe = Pipe::new(Some(first.address));
    let mcp = client(home, &pipe.url());
    mcp.call("write_file", json!({"path": "note", "content": "x"})).ok();
    first.end();
    let second = service(home);
    pipe.lead_to(Some(second.address));
    // What names no sandbox of the session just works, and does not hide what was lost.
    mcp.call("list_sandboxes", json!({})).ok();
    let lost = mcp.call("read_file", json!({"path": "note"}));
    assert_eq!(lost.code(), "sandbox_gone");
    assert!(lost.text().contains("new, empty one"), "{}", lost.text());
    // Said once; then there is a new one.
    let ran = mcp.call("run_command", json!({"command": "test ! -e note && echo new"}));
    assert_eq!(ran.run().good(), "new");
    end(mcp);
    second.end();
}

fn a_restart_without_a_default_sandbox_is_not_noticed(home: &Home) {
    let first = service(home);
    let pipe = Pipe::new(Some(first.address));
    let mcp = client(home, &pipe.url());
    let id = mcp.create();
    mcp.destroy(&id);
    first.end();
    let second = service(home);
    pipe.lead_to(Some(second.address));
    assert_eq!(mcp.call("run_code", json!({"code": "print(1)"})).ok()["stdout"], "1\n");
    end(mcp);
    second.end();
}

fn a_service_that_is_not_there_yet(home: &Home) {
    let pipe = Pipe::new(None);
    let mcp = client(home, &pipe.url());
    // A list is there all the same: clients ask for it once.
    let listed = mcp.ask("tools/list", json!({}));
    assert!(listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() > 10));
    let failed = mcp.call("run_code", json!({"code": "print(1)"}));
    assert_eq!(failed.code(), "unavailable");
    assert!(mcp.ask("ping", json!({})).get("result").is_some());
    let service = service(home);
    pipe.lead_to(Some(service.address));
    assert_eq!(mcp.call("run_code", json!({"code": "print(1)"})).ok()["stdout"], "1\n");
    end(mcp);
    service.end();
}

fn a_service_that_dies_under_a_call(home: &Home) {
    let mut first = service(home);
    let pipe = Pipe::new(Some(first.address));
    let mcp = client(home, &pipe.url());
    let id = mcp.create();
    let call = mcp.start_sh(&id, "touch on; sleep 300", json!({}));
    until("the command to run", || {
        let read = mcp.call("read_file", json!({"path": "on", "sandbox_id": id}));
        (!read.is_error()).then_some(())
    });
    first.signal(Signal::KILL);
    first.wait();
    pipe.lead_to(None);
    let broken = mcp.finish(call);
    assert_eq!(broken.code(), "unavailable");
    assert!(broken.text().contains("may have been done"), "{}", broken.text());
    // Nothing listens behind the address now.
    let refused = mcp.call("run_command", json!({"command": "true", "sandbox_id": id}));
    assert_eq!(refused.code(), "unavailable");
    let second = service(home);
    pipe.lead_to(Some(second.address));
    assert_eq!(mcp.call("run_command", json!({"command": "true"})).code(), "sandbox_gone");
    mcp.call("run_command", json!({"command": "true"})).run().good();
    end(mcp);
    second.end();
}
