//! Kernels that are none.

use super::place::Sandbox;
use crate::common::*;

as_root!(kernels_that_are_none, a_kernel_that_never_answers);
as_rootless!(kernels_that_are_none, a_kernel_that_never_answers);

/// A program that listens on a kernel's sockets and opens connections as one does, and then does something
/// else with the sockets for shell (1), publication (2) and control (4).
const FAKE: &str = r#"
import json, os, socket, sys, threading, time
at = json.load(open(sys.argv[1]))["ip"]
def listen(number):
    s = socket.socket(socket.AF_UNIX); s.bind(f"{at}-{number}"); s.listen(9); return s
sockets = {n: listen(n) for n in (1, 2, 4)}
def frame(body, flags=0): return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body
def message(kind, content, parent="{}"):
    parts = [b"<IDS|MSG>", b"", json.dumps({"msg_type": kind, "msg_id": "m"}).encode(), parent.encode(), b"{}", content]
    return b"".join(frame(part, int(n < 5)) for n, part in enumerate(parts))
def opened(number):
    c, _ = sockets[number].accept()
    c.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48))
    c.recv(64, socket.MSG_WAITALL)
    c.sendall(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB")
    return c
def flood(connection, bytes):
    try:
        while True: connection.sendall(bytes)
    except OSError: pass
shell, published, control = opened(1), opened(2), opened(4)
# As far as that it is believed to be a kernel.
def answer():
    shell.sendall(message("kernel_info_reply", b"{}"))
    published.sendall(message("status", b'{"execution_state": "idle"}', '{"msg_id": "x"}'))
"#;

const FAKES: [(&str, &str); 8] = [
    ("ends", "import sys; print('nothing here', file=sys.stderr); sys.exit(5)"),
    ("nonsense", "FAKE\nshell.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n' * 1000); time.sleep(600)"),
    ("shouts", "import os\nwhile True: os.write(1, b'x' * 65536)"),
    (
        "endless",
        "FAKE\nanswer(); published.sendall(bytes([2]) + b'\\xff' * 8); flood(published, b'x' * 65536)",
    ),
    ("frames", "FAKE\nanswer(); flood(published, b'\\x01\\x00' * 32768)"),
    (
        "messages",
        "FAKE\nanswer(); flood(published, message('stream', b'{\"name\": \"stdout\", \"text\": \"x\"}') * 1000)",
    ),
    ("nested", "FAKE\nanswer(); flood(published, message('display_data', b'[' * 4000000))"),
    ("deaf", "FAKE\nanswer(); time.sleep(6000)"),
];

fn kernels_that_are_none(home: &Home) {
    let mcp = home.mcp();
    let sandbox = Sandbox { id: mcp.create() };
    for (name, program) in FAKES {
        mcp.write(&sandbox.id, "/workspace/fake.py", &program.replace("FAKE", FAKE));
        let argv = json!(["/usr/bin/python3", "/workspace/fake.py", "{connection_file}"]);
        sandbox.specify(&mcp, "python3", &json!({"argv": argv, "language": "python"}));
        let ran = sandbox.code_with(&mcp, "print(1)", json!({"timeout_ms": 1000}));
        assert!(ran.tool.is_error(), "{name}: {}", ran.tool.text());
        let said = ran.tool.text();
        match ran.tool.data()["error"]["code"].as_str() {
            Some(code) => {
                assert_eq!(code, "unavailable", "{name}: {said}");
                assert!(said.contains("did not start"), "{name}: {said}");
            }
            None => assert!(!ran.kept(), "{name}: {said}"),
        }
        assert!(said.len() < 8 << 20, "{name}: {}", said.len());
        assert_eq!(mcp.sh(&sandbox.id, "echo lives").good(), "lives", "{name}");
        let context = json!({"action": "restart", "context": "python"});
        drop(sandbox.contexts(&mcp, context));
        assert_eq!(sandbox.processes(&mcp, "holm-kernel"), 0, "{name}: its bridge is gone");
        assert_eq!(sandbox.processes(&mcp, "python3"), 0, "{name}: it is gone itself");
    }
    // What is no specification is none.
    for text in ["[[[", "{}", "{\"argv\": [\"\\u0000\"], \"language\": \"python\"}"] {
        let path = "/home/sandbox/.local/share/jupyter/kernels/python3/kernel.json";
        mcp.write(&sandbox.id, path, text);
        let ran = sandbox.code(&mcp, "print(1)").tool;
        assert!(ran.is_error() || ran.ok()["stateful"] == json!(false), "{text}: {}", ran.text());
    }
    let peak = memory_peak(mcp.pid());
    assert!(peak < 400 << 20, "the service took {peak} bytes");
    mcp.end(home);
}

fn a_kernel_that_never_answers(home: &Home) {
    let mcp = home.mcp();
    let sandbox = Sandbox { id: mcp.create() };
    let spec = json!({"argv": ["sleep", "6000"], "language": "python"});
    sandbox.specify(&mcp, "python3", &spec);
    let other = mcp.create();
    let call = json!({"sandbox_id": sandbox.id, "code": "1", "timeout_ms": 1000});
    let waits = mcp.start("run_code", call);
    // Nobody else waits for it.
    assert_eq!(mcp.sh(&sandbox.id, "echo lives").good(), "lives");
    assert_eq!(mcp.sh(&other, "echo lives").good(), "lives");
    let failed = mcp.finish(waits);
    assert_eq!(failed.code(), "unavailable");
    assert!(failed.text().contains("did not start"), "{}", failed.text());
    assert_eq!(sandbox.processes(&mcp, "sleep"), 0);
    assert_eq!(sandbox.contexts(&mcp, json!({"action": "list"})).ok()["contexts"], json!([]));
    mcp.end(home);
}
