//! Snapshots and forks: files come back as they were, belong to one account, and leave nothing.

use crate::common::*;

as_root!(
    files_come_back_as_they_were,
    forks_have_the_files_and_nothing_else,
    snapshots_are_one_accounts,
    snapshots_are_bounded,
    forks_go_on_over_a_restart,
);
as_rootless!(
    files_come_back_as_they_were,
    forks_have_the_files_and_nothing_else,
    forks_go_on_over_a_restart,
);

/// What means harm to whoever copies it: names, links, holes, modes.
const HOSTILE: &str = r#"
import os, socket
os.chdir('/workspace')
os.makedirs('d/.wh.dir'); os.makedirs('d/.wh..wh..opq')
for name in ['plain', '.wh.plain', '.wh..opq', 'new\nline', b'\xff\xfe', '-rf', ' ', '\x1b[31m', 'x' * 255]:
    with open(os.path.join(b'd', name if isinstance(name, bytes) else name.encode()), 'wb') as file:
        file.write(b'content of ' + (name if isinstance(name, bytes) else name.encode()))
os.chmod('d/plain', 0o6711)
for number in range(3): os.link('d/plain', f'd/link{number}')
os.symlink('../../../../../../etc/shadow', 'd/out'); os.symlink('d', 'd/loop'); os.symlink('x' * 4000, 'd/long')
os.mkfifo('d/pipe', 0o640)
socket.socket(socket.AF_UNIX).bind('d/socket')
with open('d/sparse', 'wb') as file:
    file.truncate(1 << 42); file.seek(1 << 41); file.write(b'middle')
with open('d/holes', 'wb') as file:
    for number in range(500): file.seek(number * 100_000); file.write(b'x')
try: os.setxattr('d/plain', 'user.test', b'\x00value\n')
except OSError: pass
os.utime('d/.wh.plain', ns=(1, 981_173_106_123_456_789)); os.utime('d/out', ns=(1, -1_500_000_000), follow_symlinks=False)
deep = 'd'
for number in range(100): deep += '/deep'
os.makedirs(deep); os.chmod('d/.wh.dir', 0)
os.makedirs('/tmp/t', exist_ok=True); open('/tmp/t/file', 'w').write('t')
"#;

/// Everything about every file below some places; no two that differ print the same.
const LIST: &str = r#"
import hashlib, os, stat
def one(path):
    facts = os.lstat(path); kind = stat.S_IFMT(facts.st_mode); more = ''
    if stat.S_ISREG(kind):
        if facts.st_size < 1 << 30:
            try: more = hashlib.sha256(open(path, 'rb').read()).hexdigest()
            except PermissionError: more = 'unreadable'
        else:
            with open(path, 'rb') as file: file.seek(1 << 41); more = file.read(6)
            assert facts.st_blocks < 1000, facts
    if stat.S_ISLNK(kind): more = os.readlink(path)
    try: attrs = [(n, os.getxattr(path, n)) for n in sorted(os.listxattr(path, follow_symlinks=False)) if n.startswith('user.')]
    except OSError: attrs = []
    print(ascii((path, oct(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_nlink, facts.st_mtime_ns,
        facts.st_size if not stat.S_ISDIR(kind) else 0, more, attrs)))
for top in [b'/workspace', b'/tmp/t']:
    for at, dirs, files in sorted(os.walk(top)):
        dirs.sort()
        for name in [b'.'] + sorted(dirs + files):
            if name != b'socket': one(os.path.join(at, name))
"#;

fn python(mcp: &Mcp, sandbox: &str, script: &str) -> String {
    mcp.write(sandbox, "/tmp/script.py", script);
    mcp.sh(sandbox, "python3 /tmp/script.py").good().to_owned()
}

fn layers(home: &Home) -> Vec<String> {
    let mut all = Vec::new();
    for dir in ["layers", "drafts", "templates"] {
        let list = std::fs::read_dir(home.data().join("images").join(dir));
        let names = list.into_iter().flatten().flatten().map(|entry| entry.file_name());
        all.extend(names.map(|name| format!("{dir}/{}", name.to_string_lossy())));
    }
    all
}

fn files_come_back_as_they_were(home: &Home) {
    let mcp = home.mcp();
    let first = mcp.create();
    python(&mcp, &first, HOSTILE);
    mcp.sh(&first, "rm -f /tmp/script.py; echo own > ~/own; test -e /etc/hostname").good();
    let before = python(&mcp, &first, LIST);
    assert!(before.lines().count() > 100, "{before}");
    let made = mcp.call("snapshot_sandbox", json!({"sandbox_id": first, "name": "web.1"}));
    assert_eq!(made.ok()["name"], "web.1");
    assert!(made.ok()["bytes"].as_u64().is_some_and(|bytes| bytes > 0 && bytes < 64 << 20));
    // It goes on, and what it writes now is not in the snapshot.
    mcp.sh(&first, "rm -r /workspace/d/deep; echo later > /workspace/later").good();
    mcp.destroy(&first);
    let info = mcp.call("get_service_info", json!({}));
    let templates = info.ok()["templates"].as_array().expect("a list");
    assert!(templates.contains(&json!("web.1")), "{templates:?}");
    for _ in 0..2 {
        let again = mcp.create_with(json!({"template": "web.1"}));
        assert_eq!(python(&mcp, &again, LIST), before);
        assert_eq!(mcp.sh(&again, "cat ~/own; id -un; pwd").good(), "own\nsandbox\n/workspace");
        let in_use = mcp.call("delete_snapshot", json!({"name": "web.1"}));
        assert_eq!(in_use.code(), "conflict");
        // A snapshot of what was made from a snapshot.
        mcp.sh(&again, "rm -rf d/deep d/holes && echo more > more").good();
        let name = json!({"sandbox_id": again, "name": "web.2"});
        mcp.call("snapshot_sandbox", name.clone()).ok();
        assert_eq!(mcp.call("snapshot_sandbox", name).code(), "conflict");
        let third = mcp.create_with(json!({"template": "web.2"}));
        let look = "cat more; ls -d d/deep d/holes 2>/dev/null; ls d | wc -l";
        let want = mcp.sh(&again, look);
        assert_eq!(mcp.sh(&third, look).stdout, want.stdout);
        mcp.destroy(&again);
        mcp.destroy(&third);
        mcp.call("delete_snapshot", json!({"name": "web.2"})).ok();
    }
    mcp.call("delete_snapshot", json!({"name": "web.1"})).ok();
    assert_eq!(mcp.call("delete_snapshot", json!({"name": "web.1"})).code(), "not_found");
    assert_eq!(mcp.call("create_sandbox", json!({"template": "web.1"})).code(), "template_unknown");
    assert_eq!(layers(home), Vec::<String>::new(), "the space is given back");
    for name in ["", ".x", "host", "base", "A", "a/b", "a@b", "../x"] {
        let refused =
            mcp.call("snapshot_sandbox", json!({"name": name, "sandbox_id": mcp.create()}));
        let code = refused.code();
        assert!(code == "invalid_argument" || code == "conflict", "{name}: {code}");
        mcp.list().iter().for_each(|id| mcp.destroy(id));
    }
    mcp.end(home);
}

fn forks_have_the_files_and_nothing_else(home: &Home) {
    let mcp = home.mcp();
    let first = mcp.create_with(json!({"env": {"OWN": "1"}, "name": "origin"}));
    mcp.sh(&first, "echo shared > file; (sleep 1000 & echo $! > pid) >/dev/null 2>&1").good();
    let forked =
        mcp.call("fork_sandbox", json!({"sandbox_id": first, "count": 3, "env": {"NEW": "2"}}));
    let ids = forked.ok()["sandbox_ids"].as_array().expect("ids").clone();
    let ids: Vec<&str> = ids.iter().map(|id| id.as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 3);
    for (number, id) in ids.iter().enumerate() {
        let look = "cat file; kill -0 $(cat pid) 2>/dev/null && echo runs; echo $OWN$NEW; hostname";
        assert_eq!(mcp.sh(id, look).stdout, "shared\n2\norigin\n");
        mcp.sh(id, &format!("echo {number} > file")).good();
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(mcp.sh(id, "cat file").good(), number.to_string());
    }
    assert_eq!(mcp.sh(&first, "cat file; kill -0 $(cat pid) && echo runs").good(), "shared\nruns");
    // A fork of a fork, after the first ones are gone.
    let nested = mcp.call("fork_sandbox", json!({"sandbox_id": ids[2]}));
    let nested = nested.ok()["sandbox_ids"][0].as_str().expect("an id").to_owned();
    mcp.destroy(&first);
    ids.iter().for_each(|id| mcp.destroy(id));
    assert_eq!(mcp.sh(&nested, "cat file").good(), "2");
    for count in [0, 17] {
        let refused = mcp.call("fork_sandbox", json!({"sandbox_id": nested, "count": count}));
        assert_eq!(refused.code(), "invalid_argument");
    }
    mcp.destroy(&nested);
    until("layers of forks are left", || layers(home).is_empty().then_some(()));
    mcp.end(home);
}

fn snapshots_are_one_accounts(home: &Home) {
    let serve = home.serve(&[], &[]);
    let (a, b) = (serve.with_key(home.tenant("a")), serve.with_key(home.tenant("b")));
    let create = |client: &Client, wanted: Value| client.rest("POST", "/v1/sandboxes", &wanted);
    let id = |made: &Answer| made.json()["id"].as_str().expect("an id").to_owned();
    let theirs = id(&create(&a, json!({})));
    let exec = |client: &Client, id: &str, command: &str| {
        let ran = json!({"command": command});
        client.rest("POST", &format!("/v1/sandboxes/{id}/exec"), &ran).json()["stdout"].clone()
    };
    exec(&a, &theirs, "echo secret > file");
    let snapshots = format!("/v1/sandboxes/{theirs}/snapshots");
    let made = a.rest("POST", &snapshots, &json!({"name": "secret"}));
    assert_eq!(made.status, 201, "{made:?}");
    let own = id(&create(&b, json!({})));
    let ask = |name: &str| {
        let mut answers = vec![
            create(&b, json!({"template": name})),
            b.rest("DELETE", &format!("/v1/snapshots/{name}"), &Value::Null),
            b.rest("GET", &format!("/v1/templates/{name}"), &Value::Null),
        ];
        for (path, body) in [("snapshots", json!({"name": "mine"})), ("fork", json!({}))] {
            answers.push(b.rest("POST", &format!("/v1/sandboxes/{theirs}/{path}"), &body));
        }
        let texts = answers
            .iter()
            .map(|answer| (answer.status, answer.json().to_string().replace(name, "NAME")));
        texts.collect::<Vec<_>>()
    };
    // What is somebody else's is answered like what is not there.
    let strip = |mut answers: Vec<(u16, String)>| {
        for (_, text) in &mut answers {
            // Each request has a number of its own.
            let error: Value = serde_json::from_str(text).unwrap_or_default();
            *text = format!("{} {}", error["error"]["type"], error["error"]["message"]);
        }
        answers
    };
    assert_eq!(strip(ask("secret")), strip(ask("never.1")));
    assert!(strip(ask("secret")).iter().all(|(status, _)| *status == 404 || *status == 400));
    for path in ["/v1/snapshots", "/v1/templates"] {
        let listed = b.rest("GET", path, &Value::Null);
        assert!(listed.status == 200 && !listed.body.contains("secret"), "{listed:?}");
    }
    for name in [".fork-0", "../secret", "acc_0@secret"] {
        assert_eq!(
            create(&b, json!({"template": name})).json()["error"]["type"],
            "template_unknown"
        );
    }
    // The same name is free for everybody, and each gets their own.
    exec(&b, &own, "echo other > file");
    let made =
        b.rest("POST", &format!("/v1/sandboxes/{own}/snapshots"), &json!({"name": "secret"}));
    assert_eq!(made.status, 201, "{made:?}");
    for (client, want) in [(&a, "secret\n"), (&b, "other\n")] {
        let made = create(client, json!({"template": "secret"}));
        assert_eq!(made.json()["template"], "secret");
        assert_eq!(exec(client, &id(&made), "cat file"), want);
        assert_eq!(
            client.rest("DELETE", &format!("/v1/sandboxes/{}", id(&made)), &Value::Null).status,
            200
        );
        let gone = client.rest("DELETE", "/v1/snapshots/secret", &Value::Null);
        assert_eq!(gone.status, 200, "{gone:?}");
    }
    let forked = a.rest("POST", &format!("/v1/sandboxes/{theirs}/fork"), &json!({"count": 2}));
    assert_eq!(forked.status, 201, "{forked:?}");
    let forks = forked.json()["sandboxes"].as_array().expect("forks").clone();
    for fork in &forks {
        let id = fork["id"].as_str().expect("an id");
        assert_eq!(exec(&a, id, "cat file"), "secret\n");
        assert_eq!(b.rest("GET", &format!("/v1/sandboxes/{id}"), &Value::Null).status, 404);
        a.rest("DELETE", &format!("/v1/sandboxes/{id}"), &Value::Null);
    }
    until("layers are left", || layers(home).is_empty().then_some(()));
    serve.end();
}

fn snapshots_are_bounded(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for number in 0..20 {
        let name = format!("s{number}");
        mcp.call("snapshot_sandbox", json!({"sandbox_id": sandbox, "name": name})).ok();
    }
    let over = mcp.call("snapshot_sandbox", json!({"sandbox_id": sandbox, "name": "over"}));
    assert_eq!(over.code(), "quota_exceeded");
    assert!(over.text().contains("delete_snapshot"), "{}", over.text());
    mcp.call("delete_snapshot", json!({"name": "s7"})).ok();
    mcp.call("snapshot_sandbox", json!({"sandbox_id": sandbox, "name": "over"})).ok();
    // More forks than there may be sandboxes: none is made.
    let before = mcp.list().len();
    mcp.call("fork_sandbox", json!({"sandbox_id": sandbox, "count": 16})).ok();
    let more = mcp.call("fork_sandbox", json!({"sandbox_id": sandbox, "count": 16}));
    assert_eq!(more.code(), "quota_exceeded");
    assert_eq!(mcp.list().len(), before + 16);
    mcp.list().iter().for_each(|id| mcp.destroy(id));
    for number in (0..20).filter(|number| *number != 7) {
        mcp.call("delete_snapshot", json!({"name": format!("s{number}")})).ok();
    }
    mcp.call("delete_snapshot", json!({"name": "over"})).ok();
    until("layers are left", || layers(home).is_empty().then_some(()));
    mcp.end(home);
}

/// What runs on a copy keeps it while the service is away, and takes it along at its end.
fn forks_go_on_over_a_restart(home: &Home) {
    let arguments = ["--on-stop", "keep"];
    let serve = home.serve(&arguments, &[]);
    let id = |made: &Answer| made.json()["id"].as_str().expect("an id").to_owned();
    let first = id(&serve.rest("POST", "/v1/sandboxes", &json!({"timeout_minutes": 10})));
    let exec = |serve: &Serve, id: &str, command: &str| {
        let ran = json!({"command": command});
        serve.rest("POST", &format!("/v1/sandboxes/{id}/exec"), &ran).json()["stdout"].clone()
    };
    exec(&serve, &first, "echo kept > file");
    let forked = serve.rest("POST", &format!("/v1/sandboxes/{first}/fork"), &json!({}));
    let fork = forked.json()["sandboxes"][0]["id"].as_str().expect("an id").to_owned();
    serve.end();
    let serve = home.serve(&arguments, &[]);
    assert_eq!(exec(&serve, &fork, "cat file; echo more > more"), "kept\n");
    let again = serve.rest("POST", &format!("/v1/sandboxes/{fork}/fork"), &json!({}));
    let again = again.json()["sandboxes"][0]["id"].as_str().expect("an id").to_owned();
    serve.rest("DELETE", &format!("/v1/sandboxes/{first}"), &Value::Null);
    serve.rest("DELETE", &format!("/v1/sandboxes/{fork}"), &Value::Null);
    assert_eq!(exec(&serve, &again, "cat file more"), "kept\nmore\n");
    serve.rest("DELETE", &format!("/v1/sandboxes/{again}"), &Value::Null);
    until("layers are left", || layers(home).is_empty().then_some(()));
    serve.end();
}
