//! File calls: names stay inside, bytes stay the same, owners and limits are right.

use std::io::Write as _;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::common::*;

as_root!(
    case_25_links_resolve_inside,
    case_27_names_that_leave_or_break,
    case_28_pipes_and_devices,
    case_30_sizes_and_digests,
    case_31_bytes_unchanged,
    case_33_owner_and_mode,
);
as_rootless!(
    case_25_links_resolve_inside,
    case_28_pipes_and_devices,
    case_31_bytes_unchanged,
    case_33_owner_and_mode,
);

/// The digest of these bytes, as the host's own program sees it.
fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha256sum is there");
    child.stdin.take().expect("piped").write_all(bytes).expect("it reads");
    let out = child.wait_with_output().expect("it ends").stdout;
    String::from_utf8_lossy(&out[..64]).into_owned()
}

fn case_25_links_resolve_inside(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let host_only = home.dir.join("host-only");
    std::fs::write(&host_only, "host secret").expect("a file on the host");
    let hostname = mcp.sh(&sandbox, "cat /etc/hostname").good().to_owned();
    let passwd = mcp.sh(&sandbox, "cat /etc/passwd").stdout;
    assert_ne!(
        passwd,
        std::fs::read_to_string("/etc/passwd").expect("the host's"),
        "the sandbox has its own"
    );
    mcp.sh(&sandbox, "ln -s /etc/passwd a; ln -s / d; ln -s ../../../.. u").good();
    assert_eq!(mcp.read(&sandbox, "a"), passwd);
    assert_eq!(mcp.read(&sandbox, "d/etc/hostname").trim(), hostname);
    assert_eq!(mcp.read(&sandbox, "u/etc/hostname").trim(), hostname);
    let inner = format!("d{}", host_only.display());
    let read = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": inner}));
    assert_eq!(read.code(), "file_not_found", "what only the host has is not there");

    let name = format!("holm-case-25-{}", std::process::id());
    mcp.write(&sandbox, &format!("d/tmp/{name}"), "inside");
    assert_eq!(mcp.sh(&sandbox, &format!("cat /tmp/{name}")).good(), "inside");
    assert!(!std::path::Path::new("/tmp").join(&name).exists(), "nothing on the host changes");
    let listed =
        mcp.call("list_files", json!({"sandbox_id": sandbox, "path": "d", "recursive": false}));
    let names = listed.ok()["files"].to_string();
    assert!(names.contains("workspace") && !names.contains("host-only"), "{names}");
    let tree = mcp.call("list_files", json!({"sandbox_id": sandbox}));
    let rows = tree.ok()["files"].as_array().expect("files").clone();
    assert_eq!(rows.len(), 3, "links are shown and not followed: {rows:?}");
    mcp.end(home);
}

fn case_27_names_that_leave_or_break(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let long_name = "n".repeat(5000);
    let long_part = "p".repeat(300);
    // (path, what writing gives: "" = works inside, else one of these codes)
    let table: &[(&str, &[&str])] = &[
        ("../../x", &["permission_denied"]),
        ("a/../../../b", &["permission_denied"]),
        ("..%2f..%2fx", &[""]),
        ("", &["invalid_argument"]),
        (".", &["file_invalid", "invalid_argument"]),
        ("..", &["file_invalid", "invalid_argument", "permission_denied"]),
        ("/", &["file_invalid", "invalid_argument", "permission_denied"]),
        ("with\0nul", &["invalid_argument"]),
        (&long_name, &["invalid_argument"]),
        (&long_part, &["invalid_argument", "file_invalid"]),
        ("trailing/", &["invalid_argument", "file_invalid", "file_not_found"]),
        ("back\\slash", &[""]),
        ("a new\nline", &[""]),
        ("-rf", &[""]),
        ("$(id)", &[""]),
    ];
    for (path, expected) in table {
        let shown = &path[..path.len().min(40)];
        let written =
            mcp.call("write_file", json!({"sandbox_id": sandbox, "path": path, "content": "x"}));
        if written.is_error() {
            let code = written.code();
            assert!(
                expected.contains(&code.as_str()),
                "write {shown:?}: {code}: {}",
                written.text()
            );
            assert!(!written.text().is_empty());
            let read = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": path}));
            assert_ne!(read.code(), "internal", "read {shown:?}");
        } else {
            assert!(expected.contains(&""), "write {shown:?} should be refused with {expected:?}");
            assert_eq!(mcp.read(&sandbox, path), "x", "{shown:?}");
        }
    }
    let up = mcp.read(&sandbox, "../../../../../../etc/hostname");
    assert_eq!(
        up.trim(),
        mcp.sh(&sandbox, "hostname").good(),
        "steps above the root stay at the root"
    );
    let names = mcp.sh(&sandbox, "find . -mindepth 1 -maxdepth 1 -printf x | wc -c");
    assert_eq!(names.good(), "5", "the names were taken as they are, and no `a` was made");
    mcp.end(home);
}

fn case_28_pipes_and_devices(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.sh(&sandbox, "mkfifo f; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"; mkdir dir").good();
    let writer =
        mcp.start_sh(&sandbox, "echo precious > f; echo written", json!({"timeout_ms": 2_000_000}));
    let paths = [
        "f",
        "/dev/zero",
        "/dev/random",
        "/dev/null",
        "/dev/tty",
        "/proc/self/mem",
        "s",
        "dir",
        "/proc/kmsg",
        "/dev/ptmx",
    ];
    for path in paths {
        let read = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": path}));
        let code = read.code();
        assert!(
            ["file_invalid", "permission_denied", "file_not_found"].contains(&code.as_str()),
            "read {path}: {code}"
        );
        let written =
            mcp.call("write_file", json!({"sandbox_id": sandbox, "path": path, "content": "x"}));
        let code = written.code();
        assert!(
            ["file_invalid", "permission_denied", "file_not_found"].contains(&code.as_str()),
            "write {path}: {code}"
        );
    }
    // 50 reads and 50 writes at once.
    let many: Vec<_> = (0..100)
        .map(|n| {
            let path = paths[n / 2 % paths.len()];
            match n % 2 {
                0 => mcp.start("read_file", json!({"sandbox_id": sandbox, "path": path})),
                _ => mcp.start(
                    "write_file",
                    json!({"sandbox_id": sandbox, "path": path, "content": "y"}),
                ),
            }
        })
        .collect();
    assert!(mcp.ask("ping", json!({})).get("result").is_some());
    assert_eq!(mcp.sh(&sandbox, "echo alive").good(), "alive");
    for id in many {
        assert!(mcp.finish(id).is_error());
    }
    assert_eq!(mcp.sh(&sandbox, "cat f").good(), "precious", "no data was taken out of the pipe");
    assert_eq!(mcp.finish(writer).run().good(), "written");
    mcp.end(home);
}

fn case_30_sizes_and_digests(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let unit = "\"quotes' $(id) `id` é\r\n\\n\t";
    for size in [0, 1, 127 << 10, 128 << 10, 129 << 10, 1 << 20, 5 << 20] {
        let mut text: String = unit.chars().cycle().take(size).collect();
        while text.len() > size {
            text.pop();
        }
        let written = mcp.write(&sandbox, "deep/er/file", &text);
        assert_eq!(written["bytes_written"], json!(text.len()));
        let digest = mcp.sh(&sandbox, "sha256sum deep/er/file | cut -c1-64").good().to_owned();
        assert_eq!(digest, sha256(text.as_bytes()), "{size} bytes");
    }
    // A message may have 8 MiB: what is larger is refused whole, and the file stays as it was.
    let before = mcp.sh(&sandbox, "sha256sum deep/er/file").good().to_owned();
    let id = mcp.start(
        "write_file",
        json!({"sandbox_id": sandbox, "path": "deep/er/file", "content": "x".repeat(20 << 20)}),
    );
    assert_eq!(mcp.null_error(), -32600);
    assert_eq!(
        mcp.sh(&sandbox, "sha256sum deep/er/file; ls -A deep/er").good(),
        format!("{before}\nfile")
    );
    assert!(mcp.reply_now(id).is_none());
    // 20 MiB arrive in pieces and are read back in pieces.
    let piece: Vec<u8> =
        (0..5_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for n in 0..4 {
        mcp.call("write_file", json!({"sandbox_id": sandbox, "path": format!("p{n}"), "content": BASE64.encode(&piece), "encoding": "base64"})).ok();
    }
    mcp.sh(&sandbox, "cat p0 p1 p2 p3 > whole").good();
    assert_eq!(mcp.sh(&sandbox, "sha256sum whole | cut -c1-64").good(), sha256(&piece.repeat(4)));
    let mut back = Vec::new();
    loop {
        let read = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": "whole", "encoding": "base64", "offset": back.len(), "limit": 1 << 20}));
        assert_eq!(read.ok()["size"], json!(20 << 20));
        let part = BASE64.decode(read.ok()["content"].as_str().expect("text")).expect("base64");
        assert!(part.len() <= 1 << 20);
        if part.is_empty() {
            break;
        }
        back.extend(part);
    }
    assert_eq!(sha256(&back), sha256(&piece.repeat(4)));
    mcp.end(home);
}

fn case_31_bytes_unchanged(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let all: Vec<u8> = (0..=255).collect();
    let png = BASE64.decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==").expect("a picture");
    let utf16: Vec<u8> = "\u{feff}wide é".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, bytes, is_text) in [
        ("all", all.as_slice(), false),
        ("png", &png, false),
        ("utf16", &utf16, false),
        ("bom", "\u{feff}text\n".as_bytes(), true),
        ("empty", b"", true),
    ] {
        let written = mcp.call("write_file", json!({"sandbox_id": sandbox, "path": name, "content": BASE64.encode(bytes), "encoding": "base64"}));
        assert_eq!(written.ok()["bytes_written"], json!(bytes.len()));
        assert_eq!(mcp.read_bytes(&sandbox, name), bytes, "{name}");
        assert_eq!(
            mcp.sh(&sandbox, &format!("sha256sum {name} | cut -c1-64")).good(),
            sha256(bytes)
        );
        let as_text = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": name}));
        if is_text {
            assert_eq!(as_text.ok()["content"].as_str().expect("text").as_bytes(), bytes, "{name}");
        } else {
            assert_eq!(as_text.code(), "file_invalid", "{name}");
            assert!(as_text.text().contains("base64"), "it says how: {}", as_text.text());
        }
    }
    for bad in ["@@@@", "QUI", "QUJD\u{e9}"] {
        let refused = mcp.call(
            "write_file",
            json!({"sandbox_id": sandbox, "path": "bad", "content": bad, "encoding": "base64"}),
        );
        assert_eq!(refused.code(), "invalid_argument", "{bad}");
    }
    let unknown = mcp.call(
        "write_file",
        json!({"sandbox_id": sandbox, "path": "bad", "content": "x", "encoding": "latin1"}),
    );
    assert_eq!(unknown.code(), "invalid_argument");
    assert!(
        unknown.text().contains("encoding") && unknown.text().contains("base64"),
        "{}",
        unknown.text()
    );
    assert_eq!(mcp.sh(&sandbox, "ls bad 2>/dev/null | wc -l").good(), "0", "nothing was written");
    mcp.end(home);
}

fn case_33_owner_and_mode(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write(&sandbox, "script.sh", "#!/bin/sh\necho one\n");
    assert_eq!(mcp.sh(&sandbox, "stat -c '%U %G %a' script.sh").good(), "sandbox sandbox 644");
    let used = "echo 'echo two' >> script.sh && chmod 755 script.sh && ./script.sh && rm script.sh && echo gone";
    assert_eq!(mcp.sh(&sandbox, used).good(), "one\ntwo\ngone");
    mcp.sh(&sandbox, "mkdir -m 700 private; echo old > fixed; chmod 444 fixed").good();
    mcp.write(&sandbox, "private/new", "x");
    assert_eq!(mcp.sh(&sandbox, "cat private/new; stat -c %U private/new").good(), "xsandbox");
    let over =
        mcp.call("write_file", json!({"sandbox_id": sandbox, "path": "fixed", "content": "new"}));
    if over.is_error() {
        assert_eq!(over.code(), "permission_denied");
    } else {
        assert_eq!(mcp.sh(&sandbox, "cat fixed").good(), "new");
    }
    for mode in ["0755", "600", "0400"] {
        mcp.call(
            "write_file",
            json!({"sandbox_id": sandbox, "path": "moded", "content": "x", "mode": mode}),
        )
        .ok();
        let wanted = mode.trim_start_matches('0');
        assert_eq!(mcp.sh(&sandbox, "stat -c %a moded; rm -f moded").good(), wanted);
    }
    mcp.sh(&sandbox, "echo a > kept; chmod 750 kept").good();
    mcp.write(&sandbox, "kept", "b");
    assert_eq!(
        mcp.sh(&sandbox, "stat -c %a kept; cat kept").good(),
        "750\nb",
        "a mode that was there is kept"
    );
    for mode in ["9", "abc", "07777777", "-1"] {
        let refused = mcp.call(
            "write_file",
            json!({"sandbox_id": sandbox, "path": "m", "content": "x", "mode": mode}),
        );
        assert_eq!(refused.code(), "invalid_argument", "mode {mode}");
    }
    mcp.call("write_file", json!({"sandbox_id": sandbox, "path": "made/for/it/f", "content": "x"}))
        .ok();
    assert_eq!(
        mcp.sh(&sandbox, "stat -c %U made made/for made/for/it").good(),
        "sandbox\nsandbox\nsandbox"
    );
    mcp.end(home);
}
