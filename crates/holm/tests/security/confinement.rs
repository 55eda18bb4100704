//! Namespaces, mounts, cgroups and `/proc` seen from inside, against the host's.

use std::fs;

use crate::common::*;

as_root!(
    namespaces_are_its_own,
    proc_links_of_init_lead_nowhere,
    cgroups_cannot_be_left,
    signals_stay_inside,
    hidden_files_of_the_host,
    read_only_where_it_must_be,
    enforced_is_measured,
);
as_rootless!(
    namespaces_are_its_own,
    proc_links_of_init_lead_nowhere,
    signals_stay_inside,
    hidden_files_of_the_host,
    read_only_where_it_must_be,
    enforced_is_measured
);

fn namespaces_are_its_own(home: &Home) {
    let mcp = home.mcp();
    let (one, two) = (mcp.create(), mcp.create());
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let host = fs::read_link(format!("/proc/self/ns/{name}"))
            .expect("a namespace")
            .display()
            .to_string();
        let inside =
            |id: &str| mcp.sh(id, &format!("readlink /proc/self/ns/{name}")).good().to_owned();
        let (first, second) = (inside(&one), inside(&two));
        if name == "cgroup" && first == host {
            println!("SKIP the cgroup namespace: shared in this mode");
            continue;
        }
        assert!(
            first != host && second != host && first != second,
            "{name}: {host} {first} {second}"
        );
    }
    let interfaces = mcp.sh(&one, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(interfaces.good(), "lo");
    mcp.end(home);
}

fn proc_links_of_init_lead_nowhere(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let script = "for p in /proc/[0-9]*; do for l in root cwd exe fd/0 fd/1 fd/2 fd/3 fd/4 fd/5 map_files; do \
        for x in $p/$l $p/task/*/$l; do t=$(readlink $x 2>/dev/null) && echo \"$x $t\"; \
        [ -d $x/ ] && (cd $x/ 2>/dev/null && ls -a | tr '\\n' ' ' ; cat etc/hostname 2>/dev/null); done; done; done; echo end";
    let own = mcp.sh(&sandbox, "hostname").good().to_owned();
    for user in home.users() {
        let run = mcp.sh_with(&sandbox, script, json!({"user": user, "timeout_ms": 120_000}));
        let host_name = fs::read_to_string("/etc/hostname").unwrap_or_default();
        for line in run.good().lines() {
            assert!(
                !line.contains("holm-t") && !line.contains(home.dir.to_str().expect("text")),
                "{user}: {line}"
            );
            assert!(
                host_name.trim().is_empty() || line != host_name.trim() || own == line,
                "{user}: the host's name"
            );
            assert!(!line.contains("/proc/1/fd/"), "{user}: descriptors of PID 1 are seen: {line}");
        }
    }
    // Above the root there is nothing.
    let above = mcp.sh(&sandbox, "cd /; ls -id . .. | awk '{print $1}' | sort -u | wc -l");
    assert_eq!(above.good(), "1");
    mcp.end(home);
}

fn cgroups_cannot_be_left(home: &Home) {
    let mcp = home.mcp();
    let (sandbox, other) = (mcp.create(), mcp.create());
    for user in home.users() {
        let seen = mcp.sh_with(&sandbox, "cat /proc/self/cgroup; find / -xdev -name cgroup.procs 2>/dev/null | head; grep cgroup /proc/self/mountinfo; echo end", json!({"user": user}));
        assert!(
            !seen.stdout.contains("holm-"),
            "{user}: the host's cgroup names are seen: {}",
            seen.stdout
        );
        assert!(!seen.stdout.contains(&other[4..]), "{user}: another sandbox is seen");
        let mount = mcp.sh_with(&sandbox, "mkdir -p /tmp/cg; for t in cgroup cgroup2; do mount -t $t none /tmp/cg 2>/dev/null && echo mounted; done; echo end", json!({"user": user}));
        assert_eq!(mount.good(), "end", "{user}");
    }
    mcp.end(home);
}

fn signals_stay_inside(home: &Home) {
    let mcp = home.mcp();
    let (sandbox, other) = (mcp.create(), mcp.create());
    let canary = mcp.start_sh(
        &other,
        "touch up; while ! [ -e go ]; do sleep 0.02; done; echo survived",
        json!({"timeout_ms": 600_000}),
    );
    until("the other works", || {
        (mcp.sh(&other, "ls up 2>/dev/null | wc -l").stdout == "1\n").then_some(())
    });
    for user in home.users() {
        // Every process that it can name, and every number: the host's processes have other numbers.
        let kill = "python3 -c \"\nimport os, signal\nme = os.getpid()\nfor sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):\n  for pid in list(range(1, 70000)):\n    if pid != me and pid != os.getppid():\n      try: os.kill(pid, sig)\n      except OSError: pass\n\"; echo done";
        let run = mcp.sh_with(&sandbox, kill, json!({"user": user, "timeout_ms": 120_000}));
        assert!(
            run.stdout.contains("done") || run.signal.is_some() || run.exit_code != 0,
            "{user}: {run:?}"
        );
        let all = mcp.call(
            "run_command",
            json!({"sandbox_id": sandbox, "command": "kill -9 -1", "user": user}),
        );
        assert!(all.result().is_object());
        // The sandbox still answers, or says truly that it is gone.
        let after =
            mcp.call("run_command", json!({"sandbox_id": sandbox, "command": "echo alive"}));
        if after.data().get("error").is_some() {
            assert_eq!(after.code(), "sandbox_gone", "{user}: {}", after.text());
            println!("{user}: killing everything ended the sandbox");
            break;
        }
        assert_eq!(after.run().good(), "alive", "{user}");
    }
    mcp.sh(&other, "touch go").good();
    assert_eq!(mcp.finish(canary).run().good(), "survived");
    mcp.end(home);
}

fn hidden_files_of_the_host(home: &Home) {
    let secret = home.dir.join("secret");
    fs::write(&secret, "marker-of-the-host").expect("a file");
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for user in home.users() {
        let look = "for f in /etc/shadow /etc/gshadow /etc/machine-id /etc/ssh /root /home /var/lib /srv /boot /opt/wheels /etc/apt/auth.conf /etc/apt/auth.conf.d; do \
            [ -e $f ] && echo $f $(ls -A $f 2>/dev/null | tr '\\n' ' '); done; head -n 3 /etc/shadow 2>/dev/null; echo end";
        let run = mcp.sh_with(&sandbox, look, json!({"user": user}));
        let host_shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
        for line in host_shadow.lines().filter(|line| line.len() > 20) {
            assert!(!run.stdout.contains(line), "{user}: the host's passwords");
        }
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let inside =
            mcp.sh_with(&sandbox, "cat /etc/machine-id 2>/dev/null", json!({"user": user}));
        assert!(
            machine.trim().is_empty() || inside.stdout.trim() != machine.trim(),
            "{user}: the host's machine id"
        );
        let found = mcp.sh_with(&sandbox, "grep -rls marker-of-the-host /tmp /home /var /srv /mnt /opt /root /run 2>/dev/null | head; echo end", json!({"user": user, "timeout_ms": 120_000}));
        assert_eq!(found.good(), "end", "{user}");
        // Under /usr nothing is readable that others may not read on the host.
        let private = mcp.sh_with(
            &sandbox,
            "find /usr -xdev -type f ! -perm -o+r -readable 2>/dev/null | head -n 5; echo end",
            json!({"user": user, "timeout_ms": 200_000}),
        );
        let shown: Vec<&str> = private.good().lines().filter(|line| *line != "end").collect();
        for path in shown {
            let readable = mcp.sh_with(
                &sandbox,
                &format!("head -c 1 '{path}' | wc -c"),
                json!({"user": user}),
            );
            assert_eq!(readable.stdout.trim(), "0", "{user}: {path} is private on the host");
        }
    }
    mcp.end(home);
}

fn read_only_where_it_must_be(home: &Home) {
    let before = fs::read("/usr/bin/true").expect("a program of the host");
    let mcp = home.mcp();
    let sandbox = mcp.create();
    for user in home.users() {
        // Whatever happens to the view inside, the host's files stay as they are.
        let harm = "for f in /usr/bin/true /usr/lib/os-release; do (echo x >> $f) 2>/dev/null; rm -f $f 2>/dev/null; chmod 777 $f 2>/dev/null; done; \
            mv /usr/bin /usr/bin2 2>/dev/null; touch /usr/holm-attack /lib/holm-attack 2>/dev/null; echo end";
        mcp.sh_with(&sandbox, harm, json!({"user": user}));
    }
    assert_eq!(fs::read("/usr/bin/true").expect("it is there"), before);
    assert!(
        !std::path::Path::new("/usr/holm-attack").exists()
            && std::path::Path::new("/usr/bin/env").exists()
    );
    let other = mcp.create();
    assert_eq!(
        mcp.sh(&other, "true; ls /usr/holm-attack 2>/dev/null | wc -l").good(),
        "0",
        "other sandboxes see nothing of it"
    );
    mcp.end(home);
}

/// `enforced` against what really happens when a limit is passed.
fn enforced_is_measured(home: &Home) {
    let mcp = home.mcp();
    let made = mcp.call("create_sandbox", json!({}));
    let view = made.ok().clone();
    let sandbox = view["sandbox_id"].as_str().expect("an id").to_owned();
    let (enforced, missing) = (view["enforced"].to_string(), view["missing"].to_string());
    let says = |layer: &str| {
        assert!(
            enforced.contains(layer) != missing.contains(layer),
            "{layer} is in one of the two: {enforced} {missing}"
        );
        enforced.contains(layer)
    };
    let memory = view["memory_mb"].as_u64().expect("memory_mb");
    if says("memory_limit") {
        let hog = format!("python3 -c \"x = b'x' * ({memory} << 20); print(len(x))\"");
        let run = mcp.sh_with(&sandbox, &hog, json!({"timeout_ms": 200_000}));
        assert!(run.exit_code != 0 && run.out_of_memory, "{run:?}");
    }
    says("cpu_limit");
    assert!(says("process_limit"));
    let forks = "import os, time\nn = 0\nwhile n < 100000:\n  try: pid = os.fork()\n  except OSError as e: print('limited', n); os.kill(0, 9)\n  if pid == 0: time.sleep(1000)\n  n += 1\nprint('unlimited')\n";
    mcp.write(&sandbox, "forks.py", forks);
    let run =
        mcp.sh_with(&sandbox, "setsid python3 -u forks.py | cat", json!({"timeout_ms": 120_000}));
    assert!(run.stdout.starts_with("limited"), "{run:?}");
    assert!(says("disk_limit"));
    let disk = view["disk_mb"].as_u64().expect("disk_mb");
    let size: u64 = mcp
        .sh(&sandbox, "df -m --output=size / | tail -n 1 | tr -d ' '")
        .good()
        .parse()
        .expect("a number");
    assert!(size <= disk + 1, "{size} MB in a limit of {disk}");
    if home.mode == Mode::Root {
        let again = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
        assert_eq!(again.ok()["enforced"], view["enforced"]);
        assert!(says("own_id_range"));
    }
    mcp.end(home);
}
