//! The guest's program itself: it cannot be overwritten from inside, and nothing of it leaks.

use crate::common::*;

as_root!(guest_program_cannot_be_changed, descriptors_do_not_leak, supervisor_cannot_be_taken_over);
as_rootless!(
    guest_program_cannot_be_changed,
    descriptors_do_not_leak,
    supervisor_cannot_be_taken_over
);

/// Opens every `/proc/PID/exe` for writing, again and again, by itself and through descriptors.
const OVERWRITE: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    char path[64], again[64], link[256];
    for (int turn = 0; turn < 300; turn++) {
        DIR *d = opendir("/proc");
        for (struct dirent *e; (e = readdir(d));) {
            if (!atoi(e->d_name) || atoi(e->d_name) == getpid()) continue;
            snprintf(path, sizeof path, "/proc/%s/exe", e->d_name);
            ssize_t n = readlink(path, link, 255);
            if (n > 0) link[n] = 0; else strcpy(link, "?");
            if (strstr(link, "/usr/") || strstr(link, "/workspace")) continue;
            int w = open(path, O_WRONLY | O_TRUNC);
            if (w < 0) {
                int r = open(path, O_RDONLY | O_PATH);
                if (r >= 0) { snprintf(again, sizeof again, "/proc/self/fd/%d", r); w = open(again, O_RDWR); close(r); }
            }
            if (w >= 0) {
                if (write(w, "broken!!\n", 9) == 9) printf("wrote %s %s\n", path, link);
                if (ftruncate(w, 0) == 0) printf("cut %s %s\n", path, link);
                close(w);
            }
        }
        closedir(d);
    }
    puts("end");
}
"#;

fn guest_program_cannot_be_changed(home: &Home) {
    let program = static_program(OVERWRITE);
    let before = std::fs::read(&home.program).expect("the program");
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write_program(&sandbox, "overwrite", &program);
    for user in home.users() {
        // While commands start and end, so that supervisors come and go.
        let attack =
            mcp.start_sh(&sandbox, "./overwrite", json!({"user": user, "timeout_ms": 120_000}));
        let reply = loop {
            assert_eq!(mcp.sh(&sandbox, "echo ok").good(), "ok");
            if let Some(reply) = mcp.reply_now(attack) {
                break Tool { reply };
            }
        };
        assert_eq!(reply.run().good(), "end", "{user}");
    }
    assert!(
        std::fs::read(&home.program).expect("the program") == before,
        "holm's own file is unchanged"
    );
    let other = mcp.create();
    assert_eq!(mcp.sh(&other, "echo ok").good(), "ok");
    mcp.end(home);
}

/// A command sees 0, 1 and 2, also in a file's interpreter and in the background; none is a
/// directory, a socket or anything of the host.
fn descriptors_do_not_leak(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let script = "import os, stat\nfor fd in range(1024):\n  try: s = os.fstat(fd)\n  except OSError: continue\n  kind = [n for n in ('ISDIR','ISSOCK','ISBLK') if getattr(stat, 'S_' + n)(s.st_mode)]\n  print(fd, kind, end=';')\n";
    mcp.write(&sandbox, "fds.py", script);
    let wanted = "0 [];1 [];2 [];";
    for user in home.users() {
        assert_eq!(
            mcp.sh_with(&sandbox, "python3 fds.py", json!({"user": user})).good(),
            wanted,
            "{user}"
        );
    }
    let code = mcp.call("run_code", json!({"sandbox_id": sandbox, "code": script}));
    assert_eq!(code.run().good(), wanted);
    mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "python3 fds.py > seen 2>/dev/null; touch done", "background": true})).ok();
    until("the background command ends", || {
        (mcp.sh(&sandbox, "ls done 2>/dev/null | wc -l").stdout == "1\n").then_some(())
    });
    assert_eq!(mcp.read(&sandbox, "seen"), wanted);
    mcp.end(home);
}

/// The process between PID 1 and a command is no way to more rights.
fn supervisor_cannot_be_taken_over(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let script = r"
p=$PPID; echo parent $p
for f in mem environ maps auxv stack syscall; do head -c 1 /proc/$p/$f 2>/dev/null | grep -q . && echo read $f; done
(echo x > /proc/$p/mem) 2>/dev/null && echo wrote mem
python3 - $p <<'E'
import ctypes, sys, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, int(sys.argv[1]), 0, 0) == 0: print('traced')
E
kill -KILL $p 2>/dev/null && echo killed; sleep 0.1; echo end";
    for user in home.users() {
        let reply = mcp.call(
            "run_command",
            json!({"sandbox_id": sandbox, "command": script, "user": user, "timeout_ms": 60_000}),
        );
        let text = reply.result().to_string();
        for bad in ["traced", "wrote mem", "read mem", "read environ"] {
            assert!(!text.contains(bad), "{user}: {bad}: {text}");
        }
        let after =
            mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "echo alive"}));
        assert_eq!(after.run().good(), "alive", "{user}");
    }
    mcp.end(home);
}
