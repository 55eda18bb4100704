//! Using things up: processes, descriptors, memory, disk, files, pipes, sockets. The others go on.

use crate::common::*;

as_root!(one_sandbox_cannot_starve_the_others, floods_of_output_and_files);
as_rootless!(one_sandbox_cannot_starve_the_others);

fn one_sandbox_cannot_starve_the_others(home: &Home) {
    let mcp = home.mcp();
    let other = mcp.create();
    let limited = mcp.call("get_sandbox", json!({"sandbox_id": other})).ok()["enforced"]
        .to_string()
        .contains("memory_limit");
    let mut attacks = vec![
        ("fork bomb", "bash -c ':(){ :|:& };:' 2>/dev/null; sleep 1000"),
        (
            "threads",
            "python3 -c \"\nimport threading, time\nwhile True:\n  try: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n  except RuntimeError: time.sleep(1000)\n\"",
        ),
        (
            "descriptors",
            "python3 -c \"\nimport os, time\nfor _ in range(200):\n  if os.fork() == 0:\n    try:\n      while True: os.pipe()\n    except OSError: time.sleep(1000)\ntime.sleep(1000)\n\"",
        ),
        (
            "sockets",
            "python3 -c \"\nimport socket, time\nkeep = []\nwhile True:\n  try:\n    a, b = socket.socketpair(); a.setblocking(False); keep += [a, b]\n    while True: a.send(b'x' * 65536)\n  except BlockingIOError: pass\n  except OSError: time.sleep(1000)\n\"",
        ),
        (
            "inodes",
            "mkdir -p i; n=0; while :; do mkdir i/$n 2>/dev/null || sleep 1; n=$((n+1)); done",
        ),
        ("disk", "cat /dev/zero > /tmp/big 2>/dev/null; sleep 1000"),
        (
            "file locks and watches",
            "python3 -c \"\nimport ctypes, time\nlibc = ctypes.CDLL(None)\nfor _ in range(100000):\n  if libc.inotify_init() < 0: break\ntime.sleep(1000)\n\"",
        ),
    ];
    if limited {
        attacks.push((
            "memory",
            "python3 -c \"\nx = []\nwhile True: x.append(b'x' * (64 << 20))\n\"; sleep 1000",
        ));
        attacks.push(("shared memory", "cat /dev/zero > /dev/shm/big; sleep 1000"));
    } else {
        println!("SKIP memory: not limited in this mode");
    }
    for (name, command) in attacks {
        for user in home.users() {
            let sandbox = mcp.create();
            // The disk's attack is bounded by time, not by the limit: a large layer takes minutes to fill.
            let id = mcp.start_sh(&sandbox, command, json!({"user": user, "timeout_ms": 2_000}));
            let mut turns = 0;
            let reply = loop {
                assert_eq!(mcp.sh(&other, "echo x > f && cat f").good(), "x", "{name} as {user}");
                turns += 1;
                if let Some(reply) = mcp.reply_now(id) {
                    break reply;
                }
            };
            assert!(turns > 0 && reply.get("result").is_some(), "{name} as {user}: {reply}");
            mcp.destroy(&sandbox);
        }
    }
    mcp.end(home);
}

fn floods_of_output_and_files(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.sh(&sandbox, "true").good();
    let before = memory_peak(mcp.pid());
    let ids: Vec<_> = (0..30)
        .map(|_| {
            mcp.start_sh(
                &sandbox,
                "yes | head -c 60000000; yes >&2 | true",
                json!({"timeout_ms": 4_000}),
            )
        })
        .collect();
    for id in ids {
        mcp.finish(id).result();
    }
    mcp.sh(&sandbox, "truncate -s 2G sparse; ln -s sparse link").good();
    for path in ["sparse", "link"] {
        let read = mcp.call("read_file", json!({"sandbox_id": sandbox, "path": path}));
        if read.is_error() {
            assert!(
                ["too_large", "file_invalid"].contains(&read.code().as_str()),
                "{}",
                read.text()
            );
        } else {
            assert_eq!(read.ok()["truncated"], json!(true));
        }
    }
    let name = "n".repeat(255);
    mcp.sh(&sandbox, &format!("mkdir deep && cd deep && for i in $(seq 60); do mkdir {name} && cd {name}; done; echo x > leaf")).good();
    mcp.call("list_files", json!({"sandbox_id": sandbox, "path": "deep"})).result();
    let grown = memory_peak(mcp.pid()) - before;
    assert!(grown < 1 << 30, "the service grew by {grown}");
    assert_eq!(mcp.sh(&sandbox, "echo alive").good(), "alive");
    mcp.end(home);
}
