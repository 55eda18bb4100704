//! Large directories, full disks, and what is hard to remove.

use crate::common::*;

as_root!(case_34_large_directory, case_36_disk_limit, case_38_clean_up_of_anything);
as_rootless!(case_36_disk_limit, case_38_clean_up_of_anything);

fn case_34_large_directory(home: &Home) {
    let mcp = home.mcp();
    // More files than a small sandbox may have.
    let wanted = 1_000_000;
    let sandbox = mcp.create_with(json!({"size": "medium"}));
    let free: u64 = mcp
        .sh(&sandbox, "df --output=iavail /workspace | tail -n 1 | tr -d ' '")
        .good()
        .parse()
        .expect("a number");
    assert!(free > wanted, "{free} inodes are free");
    // Made without being opened, which is the quickest way.
    mcp.write(&sandbox, "make.py", &format!("import os\nos.mkdir('many')\nos.chdir('many')\nfor i in range({wanted}): os.mknod('f%07d' % i)\n"));
    mcp.sh_with(&sandbox, "python3 make.py", json!({"timeout_ms": 200_000})).good();
    let before = memory_peak(mcp.pid());
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
    // Each page is found by going through the directory, so a walk through all of them takes its
    // time; it is as long as asked for.
    let (walked, wanted) = if long() { ("many", wanted) } else { ("some", 30_000) };
    mcp.sh_with(
        &sandbox,
        "mkdir some && cd some && seq -f f%07g 0 29999 | xargs touch",
        json!({"timeout_ms": 200_000}),
    )
    .good();
    let adder = mcp.start_sh(
        &sandbox,
        "while :; do touch many/g$(date +%N) some/g$(date +%N); sleep 0.05; done",
        json!({"timeout_ms": 2_000_000}),
    );
    let page = |cursor: Option<&str>| {
        let mut arguments = json!({"sandbox_id": sandbox, "path": walked});
        if let Some(cursor) = cursor {
            arguments["cursor"] = json!(cursor);
        }
        mcp.call("list_files", arguments)
    };
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
    assert!(grown < 96 << 20, "the service grew by {grown} bytes");
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
    // Twice the limit, in each place: as much as fits is written, and no place has room of its own.
    for place in ["/home/sandbox", "/tmp", "/var/tmp", "/workspace"] {
        let blocks = limit >> 19;
        let dd = mcp.sh_with(
            &sandbox,
            &format!("dd if=/dev/zero of={place}/more bs=1M count={blocks}"),
            json!({"timeout_ms": 200_000}),
        );
        assert!(dd.exit_code != 0 && dd.stderr.contains("No space left"), "{place}: {dd:?}");
        // The last bytes, which were too few for a megabyte.
        let mut parts = 0;
        let code = loop {
            let path = format!("{place}/part-{parts}");
            let arguments =
                json!({"sandbox_id": sandbox, "path": path, "content": "x".repeat(1 << 18)});
            let reply = mcp.call("write_file", arguments);
            if reply.data().get("error").is_some() {
                break reply.code();
            }
            parts += 1;
            assert!(parts < 64, "{place}: writes go on without end");
        };
        assert_eq!(code, "disk_full", "{place}");
    }
    assert_eq!(
        mcp.sh(&other, "dd if=/dev/zero of=/tmp/x bs=1M count=64 2>/dev/null && echo fine").good(),
        "fine"
    );
    assert!(host_before.saturating_sub(host_free()) < 4 << 30, "the host's disk is not used up");
    let places = "/home/sandbox /tmp /var/tmp /workspace";
    mcp.sh(&sandbox, &format!("for d in {places}; do rm -f $d/fill $d/more $d/part-*; done"))
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
    // What was measured above is what is said.
    let info = mcp.call("get_service_info", json!({}));
    for (who, said) in [("the service", info.ok()), ("the sandbox", view.ok())] {
        let names = |field: &str| {
            let list = said[field].as_array().unwrap_or_else(|| panic!("{who} has {field}"));
            list.iter().any(|layer| layer == "disk_limit")
        };
        assert!(names("enforced") && !names("missing"), "{who}: {said}");
    }
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
