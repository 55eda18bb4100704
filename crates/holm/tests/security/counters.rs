//! What the kernel counts by user or for the whole machine: inotify instances, queued signals,
//! terminals, asynchronous requests, message queues. One sandbox takes all that it can get; the
//! host and another sandbox go on.

use std::process::Command;

use crate::common::*;

as_root!(counters_of_the_host_stay_apart);
as_rootless!(counters_of_the_host_stay_apart);

/// In a sandbox: take until nothing is left, say so, and hold it.
const HOLD: &str = "\nopen('taken', 'w').write(str(n))\ntime.sleep(1000)\n";

/// Name, what takes all, what needs one.
const COUNTERS: [(&str, &str, &str); 5] = [
    ("inotify", "while L.inotify_init1(0) >= 0: n += 1", "assert L.inotify_init1(0) >= 0"),
    (
        "signals",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [40])\nwhile L.sigqueue(os.getpid(), 40, None) == 0: n += 1",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [40])\nassert L.sigqueue(os.getpid(), 40, None) == 0",
    ),
    (
        "terminals",
        "keep = []\nwhile True:\n  try: keep.append(os.openpty()); n += 1\n  except OSError: break",
        "os.openpty()",
    ),
    (
        "asynchronous requests",
        "c = ctypes.c_ulong(0)\nwhile L.syscall(206, 1000, ctypes.byref(c)) == 0: n += 1; c = ctypes.c_ulong(0)",
        // Not there at all inside; on the host it is.
        "c = ctypes.c_ulong(0); r = L.syscall(206, 1, ctypes.byref(c))\nassert r == 0 or ctypes.get_errno() == 38, ctypes.get_errno()",
    ),
    (
        "message queues",
        "while L.mq_open(b'/q%d' % n, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0: n += 1",
        "assert L.mq_open(b'/holm-test', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0 or ctypes.get_errno() in (13, 38), ctypes.get_errno()\nL.mq_unlink(b'/holm-test')",
    ),
];

fn program(body: &str) -> String {
    format!(
        "import ctypes, os, signal, time\nL = ctypes.CDLL(None, use_errno=True)\nn = 0\n{body}\n"
    )
}

fn counters_of_the_host_stay_apart(home: &Home) {
    let mcp = home.mcp();
    let other = mcp.create();
    for (name, take, need) in COUNTERS {
        mcp.write(&other, "need.py", &program(need));
        for user in home.users() {
            let hog = mcp.create();
            mcp.write(&hog, "take.py", &program(&format!("{take}{HOLD}")));
            let call = json!({"user": user, "timeout_ms": 2_000_000});
            let id = mcp.start_sh(&hog, "python3 take.py 2>err.txt", call);
            until(name, || {
                let taken = mcp.sh(&hog, "cat taken err.txt 2>/dev/null; true");
                (!taken.stdout.is_empty()).then_some(())
            });
            let taken = mcp.sh(&hog, "cat taken").good().to_owned();
            assert!(taken.parse::<u64>().is_ok(), "{name} as {user}: {taken}");
            mcp.sh(&other, "python3 need.py").good();
            let host = Command::new("python3").args(["-c", &program(need)]).output();
            let host = host.expect("python3 on the host");
            let text = String::from_utf8_lossy(&host.stderr);
            assert!(host.status.success(), "{name} as {user}: the host has none left: {text}");
            mcp.destroy(&hog);
            assert_eq!(mcp.finish(id).code(), "sandbox_gone");
        }
    }
    mcp.end(home);
}
