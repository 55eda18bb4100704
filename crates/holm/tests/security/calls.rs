//! System calls and kernel files that no program inside may use.

use std::collections::BTreeMap;

use crate::common::*;

as_root!(refused_calls, landlock_and_capabilities_of_a_command);
as_rootless!(refused_calls, landlock_and_capabilities_of_a_command);

/// What root inside may do to PID 1; the host does not trust it anyway.
const ROOT_MAY: &[&str] = &["init_oom"];

fn refused_calls(home: &Home) {
    let program = static_program(include_str!("attacks/syscalls.c"));
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write_program(&sandbox, "/tmp/attack", &program);
    for user in home.users() {
        let run = mcp.sh_with(
            &sandbox,
            "/tmp/attack </dev/null",
            json!({"user": user, "timeout_ms": 120_000}),
        );
        let results: BTreeMap<&str, &str> =
            run.good().lines().filter_map(|line| line.split_once(' ')).collect();
        let count: usize = results["end"].parse().expect("a number");
        assert!(count > 100 && results.len() == count + 1, "{user}: all were tried: {results:?}");
        let worked: Vec<_> = results
            .iter()
            .filter(|(name, result)| {
                **result == "ok" && !(*user == "root" && ROOT_MAY.contains(name))
            })
            .map(|(name, _)| *name)
            .collect();
        assert!(worked.is_empty(), "{user}: these worked: {worked:?}");
        // Unknown numbers and namespaces by clone3 are answered as by a kernel that lacks them.
        for name in ["unknown_call", "unknown_call_high", "clone3_user"] {
            assert_eq!(results[name], "ENOSYS", "{user}: {name}");
        }
        assert_eq!(mcp.sh(&sandbox, "echo alive").good(), "alive", "{user}");
    }
    mcp.end(home);
}

/// What a command's own status says, against what `enforced` says.
fn landlock_and_capabilities_of_a_command(home: &Home) {
    let mcp = home.mcp();
    let made = mcp.call("create_sandbox", json!({}));
    let sandbox = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
    let enforced = made.ok()["enforced"].to_string();
    for user in home.users() {
        let status = mcp.sh_with(
            &sandbox,
            "cat /proc/self/status; echo; cat /proc/self/uid_map",
            json!({"user": user}),
        );
        let field = |name: &str| {
            let line = status.stdout.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
        };
        assert_eq!(field("Seccomp:"), "2", "{user}");
        assert_eq!(field("NoNewPrivs:"), "1", "{user}");
        let bounding = u64::from_str_radix(&field("CapBnd:"), 16).expect("hex");
        // sys_admin, sys_ptrace, net_admin, net_raw, sys_module, sys_boot, sys_time, mknod, syslog, bpf, perfmon, sys_rawio, audit_*, mac_*.
        for bit in [12, 13, 16, 17, 19, 21, 22, 25, 27, 29, 30, 32, 33, 34, 37, 38, 39, 40] {
            assert_eq!(
                bounding & (1 << bit),
                0,
                "{user}: capability {bit} is in the bounding set {bounding:x}"
            );
        }
        if *user == "sandbox" {
            assert_eq!(u64::from_str_radix(&field("CapEff:"), 16), Ok(0));
        }
        let map = status.stdout.rsplit("\n\n").next().expect("a map");
        for line in map.lines() {
            let numbers: Vec<u64> =
                line.split_whitespace().map(|n| n.parse().expect("a number")).collect();
            assert_ne!(numbers[1], 0, "no id inside is root outside: {line}");
        }
    }
    let landlocked = mcp.sh(&sandbox, "for f in /proc/self/comm /proc/self/coredump_filter; do (echo x > $f) 2>/dev/null && echo wrote; done; echo end");
    if enforced.contains("landlock") {
        assert_eq!(landlocked.good(), "end", "no writes to /proc");
        let rename = "mkdir a b && echo x > a/f && mv a/f b/f && ln b/f a/g && cat a/g";
        assert_eq!(
            mcp.sh(&sandbox, rename).good(),
            "x",
            "renames and links between directories work"
        );
    }
    for layer in [
        "user_namespace",
        "mount_namespace",
        "pid_namespace",
        "net_namespace",
        "ipc_namespace",
        "uts_namespace",
        "pivot_root",
        "seccomp",
        "no_new_privileges",
        "capabilities",
        "disk_limit",
        "process_limit",
    ] {
        assert!(enforced.contains(layer), "{layer} is mandatory: {enforced}");
    }
    mcp.end(home);
}
