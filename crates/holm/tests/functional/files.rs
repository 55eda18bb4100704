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
    case_34_large_directory,
    case_36_disk_limit,
    case_38_clean_up_of_anything,
);
as_rootless!(
    case_25_links_resolve_inside,
    case_28_pipes_and_devices,
    case_31_bytes_unchanged,
    case_33_owner_and_mode,
    case_36_disk_limit,
    case_38_clean_up_of_anything,
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
        ("a/../../../b", &["permission_denied", "file_not_found"]),
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
    let names = mcp.sh(&sandbox, "ls -A | wc -l");
    assert_eq!(names.good(), "5", "the names were taken as they are");
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
    let many: Vec<_> = (0..50)
        .map(|n| {
            mcp.start("read_file", json!({"sandbox_id": sandbox, "path": paths[n % paths.len()]}))
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

fn case_34_large_directory(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let free: u64 = mcp
        .sh(&sandbox, "df --output=iavail /workspace | tail -n 1 | tr -d ' '")
        .good()
        .parse()
        .expect("a number");
    let wanted = if long() {
        1_000_000.min(free.saturating_sub(5_000))
    } else {
        30_000.min(free.saturating_sub(5_000))
    };
    assert!(wanted >= 10_000, "{free} inodes are free");
    mcp.write(&sandbox, "make.py", &format!("import os\nos.mkdir('many')\nos.chdir('many')\nfor i in range({wanted}): os.close(os.open('f%07d' % i, os.O_CREAT|os.O_WRONLY))\n"));
    mcp.sh_with(&sandbox, "python3 make.py", json!({"timeout_ms": 200_000})).good();
    let before = memory_peak(mcp.pid());
    let page = |cursor: Option<&str>| {
        let mut arguments = json!({"sandbox_id": sandbox, "path": "many"});
        if let Some(cursor) = cursor {
            arguments["cursor"] = json!(cursor);
        }
        mcp.call("list_files", arguments)
    };
    let many: Vec<_> = (0..20)
        .map(|_| mcp.start("list_files", json!({"sandbox_id": sandbox, "path": "many"})))
        .collect();
    for id in many {
        let first = mcp.finish(id);
        let count = first.ok()["files"].as_array().expect("files").len();
        assert!(count > 0 && count <= 10_000, "{count} on a page");
        assert_eq!(first.ok()["truncated"], json!(true), "it says that there is more");
        assert!(first.ok()["next_cursor"].is_string(), "and how to go on");
    }
    let adder = mcp.start_sh(
        &sandbox,
        "while :; do touch many/g$(date +%N); sleep 0.05; done",
        json!({"timeout_ms": 2_000_000}),
    );
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor: Option<String> = None;
    loop {
        let next = page(cursor.as_deref());
        for row in next.ok()["files"].as_array().expect("files") {
            let name = row["name"].as_str().expect("a name").to_owned();
            if name.starts_with('f') {
                assert!(seen.insert(name), "{row} comes once");
            }
        }
        match next.ok()["next_cursor"].as_str() {
            Some(more) => cursor = Some(more.to_owned()),
            None => break,
        }
    }
    mcp.cancel(adder);
    assert_eq!(seen.len() as u64, wanted, "each file that was there is listed, none is skipped");
    let grown = memory_peak(mcp.pid()) - before;
    assert!(grown < 256 << 20, "the service grew by {grown} bytes");
    mcp.end(home);
}

fn case_36_disk_limit(home: &Home) {
    let mcp = home.mcp();
    let (sandbox, other) = (mcp.create(), mcp.create());
    let view = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
    let limit = view.ok()["disk_mb"].as_u64().expect("disk_mb") << 20;
    let host_free = || {
        let fs = rustix::fs::statvfs(&home.dir).expect("the host's disk");
        fs.f_bavail * fs.f_frsize
    };
    let host_before = host_free();
    // Blocks are reserved without being written, so that a large limit is reached in a moment.
    let fill = "import os, errno, sys\nplaces = ['/home/sandbox', '/tmp', '/var/tmp', '/workspace']\ntotal = 0\nfor n, place in enumerate(places):\n  try:\n    fd = os.open(place + '/fill', os.O_CREAT|os.O_WRONLY)\n  except OSError as e:\n    print(place, errno.errorcode[e.errno]); continue\n  step = 1 << 30\n  size = 0\n  while step >= 65536:\n    try:\n      os.posix_fallocate(fd, size, step); size += step; total += step\n    except OSError as e:\n      assert e.errno == errno.ENOSPC, e\n      step //= 2\n  print(place, size)\n  if n == 0: os.ftruncate(fd, size // 2); total -= size - size // 2\nprint('total', total)\n";
    mcp.write(&sandbox, "/dev/shm/fill.py", fill);
    let filled = mcp
        .sh_with(&sandbox, "python3 /dev/shm/fill.py", json!({"timeout_ms": 200_000}))
        .good()
        .to_owned();
    let total: u64 = filled.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(total <= limit + (1 << 20), "{total} bytes fit into a limit of {limit}: {filled}");
    assert!(total >= limit / 2, "{total} of {limit} bytes could be used: {filled}");
    let small = mcp.call(
        "write_file",
        json!({"sandbox_id": sandbox, "path": "more", "content": "x".repeat(2 << 20)}),
    );
    assert_eq!(small.code(), "disk_full");
    assert_eq!(
        mcp.sh(&sandbox, "ls -A /workspace").good().replace("fill", "").trim(),
        "",
        "no half-written file"
    );
    let dd = mcp.sh(&sandbox, "dd if=/dev/zero of=/tmp/more bs=1M count=64");
    assert!(dd.exit_code != 0 && dd.stderr.contains("No space left"), "{dd:?}");
    assert_eq!(
        mcp.sh(&other, "dd if=/dev/zero of=/tmp/x bs=1M count=64 2>/dev/null && echo fine").good(),
        "fine"
    );
    assert!(host_before.saturating_sub(host_free()) < 4 << 30, "the host's disk is not used up");
    mcp.sh(&sandbox, "rm -f /home/sandbox/fill /tmp/fill /tmp/more /var/tmp/fill /workspace/fill")
        .good();
    mcp.write(&sandbox, "more", &"x".repeat(2 << 20));
    assert_eq!(
        mcp.sh(&sandbox, "dd if=/dev/zero of=/tmp/more bs=1M count=64 2>/dev/null && echo fine")
            .good(),
        "fine"
    );
    // Shared memory has a limit of its own.
    let shm = mcp.sh_with(
        &sandbox,
        "head -c 64G /dev/zero > /dev/shm/big; stat -c %s /dev/shm/big; rm -f /dev/shm/big",
        json!({"timeout_ms": 120_000}),
    );
    let size: u64 = shm.stdout.trim().parse().unwrap_or(0);
    let memory = view.ok()["memory_mb"].as_u64().expect("memory_mb") << 20;
    assert!(size <= memory, "shared memory took {size} of {memory}: {shm:?}");
    let inodes = "import os, errno\nos.chdir('/tmp')\nn = 0\ntry:\n  os.mkdir('i')\n  while True:\n    os.close(os.open('i/%d' % n, os.O_CREAT)); n += 1\nexcept OSError as e: print(errno.errorcode[e.errno], n)\n";
    let free: u64 = mcp
        .sh(&sandbox, "df --output=iavail /workspace | tail -n 1 | tr -d ' '")
        .good()
        .parse()
        .expect("a number");
    assert!(free < 20_000_000, "inodes are limited: {free}");
    if long() || free < 70_000 {
        mcp.write(&sandbox, "/dev/shm/inodes.py", inodes);
        let ran =
            mcp.sh_with(&sandbox, "python3 /dev/shm/inodes.py", json!({"timeout_ms": 200_000}));
        assert!(ran.good().starts_with("ENOSPC"), "{ran:?}");
    }
    let info = mcp.call("get_service_info", json!({}));
    let text = info.ok().to_string();
    assert!(text.contains("disk_limit"), "service info tells how the disk is limited: {text}");
    mcp.end(home);
}

fn case_38_clean_up_of_anything(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let nest = "import os\nfor _ in range(3000):\n  os.mkdir('d'); os.chdir('d')\nos.mkdir('/workspace/closed', 0)\nos.makedirs('/tmp/cwd')\n";
    mcp.write(&sandbox, "nest.py", nest);
    mcp.sh(&sandbox, "python3 nest.py").good();
    mcp.sh(&sandbox, "cd /tmp/cwd && (setsid sleep 3000 &) ; printf x > \"$(printf 'odd\\377\\nname')\"; chmod 000 /tmp/cwd; echo ok").good();
    mcp.sh(&sandbox, "touch immutable; chattr +i immutable 2>/dev/null; mount -t tmpfs none /tmp 2>/dev/null; true").good();
    home.note_instances();
    mcp.destroy(&sandbox);
    assert_eq!(
        mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "true"})).code(),
        "sandbox_gone"
    );
    assert!(mcp.list().is_empty());
    mcp.end(home);
    home.assert_clean();
}
