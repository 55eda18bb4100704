//! Isolation seen from inside: what is visible, what is open, and what happens where it cannot be had.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::common::*;

as_root!(
    case_112_secrets_of_the_service,
    case_113_descriptors_and_directories,
    case_115_kernel_interfaces,
    case_116_no_isolation_no_run,
);
as_rootless!(
    case_112_secrets_of_the_service,
    case_113_descriptors_and_directories,
    case_115_kernel_interfaces,
    case_116_a_service_runs_without_a_layer_by_exception_only,
);

fn case_112_secrets_of_the_service(home: &Home) {
    let mut command = home.command_of(&home.program);
    // As an argument too: the program's own name, for no other argument of it is free text.
    command.arg0("marker-7c1e9").args(["mcp", "--local"]);
    command.env("HOLM_TEST_TOKEN", "marker-7c1e9").env("ABX_SANDBOX_API_KEY", "marker-7c1e9");
    let mcp = Mcp::spawn(command, home);
    mcp.initialize("2025-06-18");
    let shown = command_line(mcp.pid());
    assert_eq!(shown.matches("marker-7c1e9").count(), 1, "the host shows it: {shown}");
    let sandbox = mcp.create_with(json!({"template": "host"}));
    for user in home.users() {
        let look = "env; for d in /proc/[0-9]*; do tr '\\0' '\\n' < $d/environ; tr '\\0' ' ' < $d/cmdline; echo; done 2>/dev/null";
        let seen = mcp.sh_with(&sandbox, look, json!({"user": user}));
        assert!(
            !seen.stdout.contains("marker-7c1e9") && !seen.stderr.contains("marker-7c1e9"),
            "{user}: {}",
            seen.stdout
        );
        assert!(
            !seen.stdout.contains(home.dir.to_str().expect("text")),
            "no path of the host: {}",
            seen.stdout
        );
        let count = mcp.sh_with(&sandbox, "ls -d /proc/[0-9]* | wc -l", json!({"user": user}));
        assert!(
            count.good().parse::<u32>().expect("a number") < 15,
            "only its own processes: {count:?}"
        );
    }
    let code = mcp.call(
        "run_code",
        json!({"sandbox_id": sandbox, "code": "import os; print(dict(os.environ))"}),
    );
    assert!(!code.run().good().contains("marker-7c1e9"));
    mcp.end(home);
}

fn case_113_descriptors_and_directories(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for user in home.users() {
        let open = mcp.sh_with(&sandbox, "ls /proc/$$/fd", json!({"user": user}));
        assert_eq!(open.good(), "0\n1\n2", "{user}");
    }
    let code = "import os\nprint(sorted(os.listdir('/proc/self/fd'), key=int)[:-1], os.readlink('/proc/self/cwd'))";
    let open = mcp.call("run_code", json!({"sandbox_id": sandbox, "code": code})).run();
    assert_eq!(open.good(), "['0', '1', '2'] /workspace");
    let id = mcp.sh(&sandbox, "cat /etc/hostname").good().to_owned();
    let mut directories: Vec<String> = (3..=20).map(|n| format!("/proc/self/fd/{n}")).collect();
    directories.extend(
        ["/proc/1/cwd", "/proc/1/root", "/proc/self/root", "link-fd", "link-root"]
            .map(str::to_owned),
    );
    mcp.sh(&sandbox, "ln -s /proc/self/fd/5 link-fd; ln -s /proc/1/root link-root").good();
    for directory in directories {
        for user in home.users() {
            let reply = mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "cat $(pwd -P)/etc/hostname etc/hostname /etc/hostname 2>/dev/null; ls -a .. | head -50", "cwd": directory, "user": user}));
            if reply.is_error() && reply.data().get("error").is_some() {
                assert_ne!(reply.code(), "internal", "{directory}: {}", reply.text());
            } else {
                let run = reply.run();
                let foreign = run.stdout.lines().any(|line| line.starts_with("holm-t"));
                assert!(!foreign, "{directory} shows the host: {}", run.stdout);
                assert!(run.stdout.contains(&id) || run.exit_code != 0, "{directory}: {run:?}");
            }
        }
    }
    mcp.end(home);
}

fn case_115_kernel_interfaces(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let writes = "for f in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/vm/overcommit_memory \
        /proc/sysrq-trigger /proc/sys/kernel/modprobe /proc/irq/default_smp_affinity /proc/acpi \
        /proc/sys/net/ipv4/ip_forward /proc/sys/user/max_user_namespaces /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state; \
        do [ -e $f ] && (cat $f 2>/dev/null || echo 1) > /tmp/v && (cat /tmp/v > $f) 2>/dev/null && echo wrote $f; done; echo end";
    let reads = "for f in /proc/kcore /proc/kmsg /proc/keys /proc/timer_list /proc/sched_debug /dev/mem /dev/kmsg /dev/port /proc/kpagecount; \
        do [ -e $f ] && head -c 1 $f 2>/dev/null | grep -q . && echo read $f; done; dmesg >/dev/null 2>&1 && echo dmesg; echo end";
    for user in home.users() {
        let as_user = json!({"user": user});
        assert_eq!(mcp.sh_with(&sandbox, writes, as_user.clone()).good(), "end", "{user} writes");
        assert_eq!(mcp.sh_with(&sandbox, reads, as_user.clone()).good(), "end", "{user} reads");
        let devices = mcp.sh_with(
            &sandbox,
            "find /dev -type b -o -type c | sort | tr '\\n' ' '",
            as_user.clone(),
        );
        let allowed = [
            "/dev/full",
            "/dev/null",
            "/dev/random",
            "/dev/tty",
            "/dev/urandom",
            "/dev/zero",
            "/dev/ptmx",
            "/dev/pts/ptmx",
            "/dev/console",
        ];
        let extra: Vec<_> =
            devices.good().split_whitespace().filter(|d| !allowed.contains(d)).collect();
        assert!(extra.is_empty(), "{user}: more devices: {extra:?}");
        let mounts = mcp.sh_with(&sandbox, "cat /proc/self/mountinfo", as_user);
        assert!(!mounts.good().contains("holm-t"), "no host path: {}", mounts.stdout);
        for line in mounts.good().lines() {
            let point = line.split(' ').nth(4).expect("a mount point");
            let ok =
                ["/", "/proc", "/dev", "/sys", "/usr", "/etc", "/run", "/tmp"].iter().any(|top| {
                    point == *top || point.starts_with(&format!("{}/", top.trim_end_matches('/')))
                });
            assert!(ok, "an unexpected mount: {line}");
        }
    }
    mcp.end(home);
}

fn case_116_no_isolation_no_run(home: &Home) {
    let program = home.program.to_str().expect("text");
    let run = |script: &str| {
        let mut command = home.command_of("/usr/bin/unshare".as_ref());
        command.args(["-Urm", "sh", "-c", script]);
        let out: std::process::Output = command.output().expect("unshare is there");
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    // No further user namespaces: nothing runs, and the text names what is missing.
    let off = "echo 0 > /proc/sys/user/max_user_namespaces && ";
    let (code, out, err) = run(&format!("{off} exec {program} run -- sh -c 'echo RAN'"));
    assert_ne!(code, Some(0), "{out} {err}");
    assert!(!out.contains("RAN"), "it ran without isolation");
    assert!(err.to_lowercase().contains("user namespace"), "it names what is missing: {err}");
    assert!(!err.contains("panicked"), "{err}");
    let (_, out, err) = run(&format!("{off} exec {program} doctor"));
    let told = format!("{out}{err}").to_lowercase();
    assert!(
        told.contains("user") && told.contains("max_user_namespaces"),
        "doctor names the mend: {told}"
    );
    in_a_plain_container(home);
    // A read-only cgroup tree: it runs with what is left, and says what is missing.
    let mut command = Command::new("unshare");
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", home.dir.join("home"));
    command.env("HOLM_DATA_DIR", home.data()).env("HOLM_RUNTIME_DIR", home.runtime());
    command.args(["-m", "sh", "-c", &format!(
        "for m in /sys/fs/cgroup/*; do mountpoint -q $m && mount -o remount,bind,ro $m; done; \
         printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"create_sandbox\",\"arguments\":{{}}}}}}' | {program} mcp")]);
    let out = command.output().expect("unshare is there");
    let text = String::from_utf8_lossy(&out.stdout);
    let reply: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{out:?}"));
    let data = &reply["result"]["structuredContent"];
    if reply["result"]["isError"] == json!(true) {
        assert_eq!(data["error"]["code"], "isolation_unavailable", "{reply}");
    } else {
        assert!(data["missing"].to_string().contains("memory_limit"), "{reply}");
        assert!(!data["enforced"].to_string().contains("memory_limit"), "{reply}");
    }
}

/// An ordinary user's service. What the host lacks is what `holm doctor` says.
fn case_116_a_service_runs_without_a_layer_by_exception_only(home: &Home) {
    let report = home.holm(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("doctor prints JSON");
    let rows = report["layers"].as_array().expect("layers");
    let excusable = ["own_id_range", "landlock", "memory_limit", "cpu_limit"];
    let lacking: Vec<&Value> = rows
        .iter()
        .filter(|row| {
            row["enforced"] == json!(false) && excusable.iter().any(|e| row["layer"] == *e)
        })
        .collect();
    let names: Vec<&str> =
        lacking.iter().map(|row| row["layer"].as_str().expect("a name")).collect();
    // A user with subordinate ids and delegated cgroups lacks nothing, and needs no exception.
    let all = names.join(",");
    for left_out in &names {
        let others: Vec<&str> = names.iter().copied().filter(|name| name != left_out).collect();
        let mut command = home.command();
        command.args(["serve", "--port", "0", "--allow-missing", &others.join(",")]);
        let refused = finish(command, b"");
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.out().is_empty(), "{refused:?}");
        let err = refused.err();
        assert!(err.contains(&format!("a service needs: {left_out}\n")), "{err}");
        assert!(err.contains(&format!("--allow-missing {all}\n")), "{err}");
        let row = lacking.iter().find(|row| row["layer"] == *left_out).expect("it is lacking");
        assert!(err.contains(row["mend"].as_str().expect("a mend")), "{err}");
    }
    let serve = home.serve(&["--allow-missing", &all], &[("HOLM_ALLOW_MISSING", "")]);
    let warned = serve.stderr().lines().filter(|line| line.contains("WARN")).count();
    assert_eq!(warned, usize::from(!names.is_empty()), "{}", serve.stderr());
    assert!(names.is_empty() || serve.stderr().contains(&all), "{}", serve.stderr());
    let made = serve.stateless("create_sandbox", &json!({})).tool();
    let made = made.data();
    for name in excusable {
        let list = if names.contains(&name) { "missing" } else { "enforced" };
        let list = made[list].as_array().expect("a list of layers");
        assert!(list.contains(&json!(name)), "{name}: {made}");
    }
    serve.end();
}

/// What the default filter of container engines does: no new namespaces, no mounts, and `clone3`
/// hidden, because its flags cannot be seen.
fn container_filter() -> Vec<u8> {
    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const HAS: u16 = 0x45;
    const ANSWER: u16 = 0x06;
    const PERM: u32 = 0x5_0001;
    let call = |number: u32, answer: u32| [(IS, 0, 1, number), (ANSWER, 0, 0, answer)];
    let mut program = vec![(LOAD, 0, 0, 0)];
    // clone3 (as not implemented), unshare, mount, setns.
    for (number, answer) in [(435, 0x5_0026), (272, PERM), (165, PERM), (308, PERM)] {
        program.extend(call(number, answer));
    }
    // clone with any CLONE_NEW*.
    program.extend([(IS, 0, 3, 56), (LOAD, 0, 0, 16), (HAS, 0, 1, 0x7e02_0000)]);
    program.extend([(ANSWER, 0, 0, PERM), (ANSWER, 0, 0, 0x7fff_0000)]);
    let mut bytes = Vec::new();
    for (code, yes, no, value) in program {
        bytes.extend(u16::to_ne_bytes(code));
        bytes.extend([yes, no]);
        bytes.extend(u32::to_ne_bytes(value));
    }
    bytes
}

/// As root of a container: with the capabilities that engines leave, and with none. None may mount,
/// and the kernel refuses namespaces.
fn in_a_plain_container(home: &Home) {
    std::fs::write(home.dir.join("filter"), container_filter()).expect("a file of the home");
    let usual = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "MKNOD"];
    let usual = usual.map(|name| format!(" --cap-add CAP_{name}")).concat();
    for capabilities in [usual.as_str(), ""] {
        let container = format!(
            "--dev-bind / / --cap-drop ALL{capabilities} --seccomp 9 sh -c \"$1\" 9<filter"
        );
        refuses_inside(home, &format!("exec bwrap {container}"));
    }
}

/// Mounts and namespaces are refused both, and whichever is met first is named; `holm doctor` names
/// all.
fn names_a_mend(message: &str) -> bool {
    let mends = ["CAP_SYS_ADMIN", "a profile that allows user namespaces"];
    message.contains("container") && mends.iter().any(|mend| message.contains(mend))
}

fn refuses_inside(home: &Home, container: &str) {
    let program = home.program.to_str().expect("text");
    let inside = |script: &str| {
        let mut command = home.command_of("/bin/sh".as_ref());
        command.args(["-c", container, "sh", script]);
        finish(command, b"")
    };
    let probe = "id -u; unshare -Ur true || echo no; mount -t tmpfs x /mnt || echo no";
    let is_one = inside(probe);
    assert_eq!(is_one.out(), "0\nno\nno\n", "{is_one:?}");

    let ran = inside(&format!("exec {program} run -- sh -c 'echo RAN'"));
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    assert!(!ran.out().contains("RAN"), "it ran without isolation: {ran:?}");
    assert!(names_a_mend(&ran.err()), "{ran:?}");

    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "create_sandbox", "arguments": {}}});
    let served = inside(&format!("printf '%s\\n' '{request}' | exec {program} mcp --local"));
    let reply: Value = serde_json::from_str(served.out().lines().next().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{served:?}"));
    let error = &reply["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "isolation_unavailable", "{reply}");
    let message = error["message"].as_str().expect("a message");
    assert!(names_a_mend(message), "{message}");

    let doctor = inside(&format!("exec {program} doctor"));
    assert_eq!(doctor.code(), Some(1), "{doctor:?}");
    let table = doctor.out();
    let rows: Vec<&str> =
        table.lines().skip_while(|line| !line.starts_with("user namespace")).take(2).collect();
    assert!(rows[0].contains("MISSING") && rows[1].contains("mend:"), "{table}");
    assert!(rows[1].contains("container") && rows[1].contains("profile"), "{table}");
    assert!(table.contains("CAP_SYS_ADMIN"), "the mounts are named as well: {table}");
    assert!(table.contains("No sandbox can be made on this host"), "{table}");
}
