//! Resource limits: memory, processors, and calls that must work while both are used up.

use crate::common::*;

as_root!(
    case_98_death_by_memory_is_said,
    case_99_programs_see_their_processors,
    case_101_control_calls_under_load,
    case_103_limits_hold_for_later_commands,
);
as_rootless!(case_99_programs_see_their_processors, case_101_control_calls_under_load);

/// Fills memory past any limit of this test; touched page by page.
const HOG: &str = "import sys\nx = []\nwhile True: x.append(b'x' * (64 << 20))\n";

fn case_98_death_by_memory_is_said(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write(&sandbox, "hog.py", HOG);
    let steady = mcp.sh(&sandbox, "sleep 3000 >/dev/null 2>&1 & echo $!").good().to_owned();
    let memory = mcp.call("get_sandbox", json!({"sandbox_id": sandbox})).ok()["memory_mb"]
        .as_u64()
        .expect("memory_mb");
    for (what, id) in [
        (
            "a child of the shell",
            mcp.start_sh(&sandbox, "python3 hog.py; exit $?", json!({"timeout_ms": 200_000})),
        ),
        (
            "run_code",
            mcp.start(
                "run_code",
                json!({"sandbox_id": sandbox, "code": HOG, "timeout_ms": 200_000}),
            ),
        ),
    ] {
        let reply = mcp.finish(id);
        let run = reply.run();
        assert!(run.out_of_memory, "{what}: {run:?}");
        assert!(!run.timed_out, "{what}: {run:?}");
        let note = format!("its memory limit of {memory} MiB");
        assert!(reply.text().contains(&note), "{what} names the limit: {}", reply.text());
        assert!(reply.data()["note"].as_str().is_some_and(|text| text.starts_with("killed")));
        if what == "run_code" {
            assert_eq!(run.data["stateful"], json!(false), "it tells that no state is kept");
        }
        assert_eq!(mcp.sh(&sandbox, "echo lives").good(), "lives", "{what}");
    }
    // A child is killed, and its parent says what becomes of that.
    let by_python = "import subprocess, sys\n\
        print(subprocess.run([sys.executable, 'hog.py']).returncode)\n";
    let code = |language: &str, code: &str| json!({"language": language, "code": code});
    let survivors = [
        ("run_command", json!({"command": SURVIVE}), 0, "rc=137"),
        ("run_command", json!({"command": "python3 hog.py || exit 3"}), 3, ""),
        ("run_code", code("bash", SURVIVE), 0, "rc=137"),
        ("run_code", code("python", by_python), 0, "-9"),
    ];
    for (tool, mut arguments, exit_code, stdout) in survivors {
        arguments["sandbox_id"] = json!(sandbox);
        arguments["timeout_ms"] = json!(200_000);
        let reply = mcp.call(tool, arguments.clone());
        let run = reply.run();
        assert_eq!((run.exit_code, run.stdout.trim()), (exit_code, stdout), "{arguments}");
        assert!(run.out_of_memory, "{arguments}: {run:?}");
        let note = survivor_note(memory);
        assert_eq!(run.data["note"], json!(note), "{arguments}");
        assert!(reply.text().contains(&note), "{}", reply.text());
    }
    let calm = mcp.sh(&sandbox, "exit 137");
    assert!(!calm.out_of_memory && calm.data["note"].is_null(), "{calm:?}");
    let background = mcp.call(
        "run_command",
        json!({"sandbox_id": sandbox, "command": "python3 hog.py", "background": true}),
    );
    let pid = background.ok()["pid"].to_string();
    let kills = || {
        let view = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
        view.ok()["usage"]["oom_kills"].as_u64().expect("a count")
    };
    until("the background program is gone", || {
        (mcp.sh(&sandbox, &format!("test -d /proc/{pid} && echo there || echo gone")).stdout
            == "gone\n")
            .then_some(())
    });
    assert_eq!(kills(), 7, "one that nobody waits for is counted too");
    assert_eq!(
        mcp.sh(&sandbox, &format!("test -d /proc/{steady} && echo there")).good(),
        "there",
        "other processes live on"
    );
    mcp.end(home);
}

/// A command whose child is killed and which goes on.
const SURVIVE: &str = "python3 hog.py; echo rc=$?";

fn survivor_note(memory: u64) -> String {
    format!(
        "while it ran, a process of the sandbox was killed because the sandbox reached its memory \
         limit of {memory} MiB"
    )
}

/// How many processors programs think that they have, each by its usual question.
const COUNTS: &[(&str, &str)] = &[
    ("nproc", "nproc"),
    (
        "taskset",
        "taskset -cp $$ | sed 's/.*: //' | tr , '\\n' | awk -F- '{n += NF > 1 ? $2 - $1 + 1 : 1} END {print n}'",
    ),
    ("python3", "python3 -c 'import os; print(len(os.sched_getaffinity(0)))'"),
    (
        "python3 pool",
        "python3 -c 'import concurrent.futures as f; print(f.ThreadPoolExecutor()._max_workers - 4)'",
    ),
    ("node", "node -p 'os.availableParallelism()'"),
    ("make", "printf 'all:\\n\\t@echo %s\\n' \"$(nproc)\" | make -f - -j$(nproc)"),
];

fn case_99_programs_see_their_processors(home: &Home) {
    let host = host_processors();
    let mcp = home.mcp();
    let mut below = counts_are_right(home, &mcp, host);
    mcp.end(home);
    // A holm that may use one processor gives one, whatever else there is outside.
    let mut command = home.command_of("/usr/bin/taskset".as_ref());
    command.args(["--cpu-list", &first_processor(), home.program.to_str().expect("text")]);
    let mcp = Mcp::spawn(
        {
            command.args(["mcp", "--local"]);
            command
        },
        home,
    );
    mcp.initialize("2025-06-18");
    below |= counts_are_right(home, &mcp, 1) || host > 1;
    mcp.end(home);
    if !below {
        println!("SKIP part of case 99: this host has one processor");
    }
}

fn host_processors() -> usize {
    std::thread::available_parallelism().expect("a count").get()
}

/// One that this test may use.
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("it can be read");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("it is there").trim().split([',', '-']).next().expect("one").to_owned()
}

/// In every size that can be had. True when one had fewer than `host`.
fn counts_are_right(home: &Home, mcp: &Mcp, host: usize) -> bool {
    let mut below = false;
    home.note_instances();
    for size in ["small", "medium", "large"] {
        let made = mcp.call("create_sandbox", json!({"size": size}));
        if made.is_error() {
            // A size with more memory than the host has.
            assert_eq!(made.code(), "invalid_argument", "{size}: {}", made.text());
            continue;
        }
        let sandbox = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
        let given = made.ok()["vcpus"].as_u64().expect("vcpus");
        let given = usize::try_from(given).expect("small");
        assert!(given <= host, "{size}: {given} of {host} are given");
        below |= given < host;
        for (program, command) in COUNTS {
            // It asks for the host's until Python 3.13, which is documented.
            if *program == "python3 pool" && given < host_processors() {
                continue;
            }
            let name = program.split(' ').next().expect("a name");
            if mcp.sh(&sandbox, &format!("command -v {name}")).exit_code != 0 {
                println!("SKIP part of case 99: no {name} in the template");
                continue;
            }
            let seen: usize = mcp.sh(&sandbox, command).good().parse().expect("a number");
            assert_eq!(seen, given, "{size}: {program}");
        }
        mcp.destroy(&sandbox);
    }
    below
}

/// Fills memory by the MiB that it is told, in huge pages where there are some: the first time
/// before anything else runs, then as often as asked.
const FILL: &str = "import mmap, os, sys
held = []
os.mkfifo('more')
size = int(sys.argv[1])
while True:
    part = mmap.mmap(-1, size << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    part.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, len(part), 4096): part[at] = 1
    held.append(part)
    open('/tmp/full', 'w').write(str(len(held)))
    size = int(open('more').read())
";

/// What the kernel counts as memory of the sandbox that uses most, and its limit, in MiB.
fn memory(mcp: &Mcp) -> (u64, u64) {
    let group = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let place = match fields.next()? {
            "memory" => "/sys/fs/cgroup/memory",
            "" => "/sys/fs/cgroup",
            _ => return None,
        };
        let group = fields.next().filter(|group| group.contains("/sandbox-"))?;
        let read = |names: [&str; 2]| {
            let read = |name| std::fs::read_to_string(format!("{place}{group}/{name}")).ok();
            names.into_iter().find_map(read)?.trim().parse::<u64>().ok().map(|n| n >> 20)
        };
        let used = read(["memory.usage_in_bytes", "memory.current"])?;
        Some((used, read(["memory.limit_in_bytes", "memory.max"])?))
    };
    let groups = descendants(mcp.pid()).into_iter().filter_map(|(pid, _)| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        text.lines().find_map(group)
    });
    groups.max().expect("the sandbox has a group with a memory limit")
}

fn case_101_control_calls_under_load(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    let view = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
    let limited = view.ok()["enforced"].to_string().contains("memory_limit");
    let most = view.ok()["memory_mb"].as_u64().expect("memory_mb");
    mcp.write(&sandbox, "fill.py", FILL);
    // Nearly all of it while nothing else needs the processors: beside 64 loops it would take long.
    // Where it is not limited it would be the host's memory.
    let first = if limited { most * 98 / 100 } else { 256 };
    let times = |n: usize| {
        until("the memory is filled", || {
            (mcp.sh(&sandbox, "cat /tmp/full 2>/dev/null; true").stdout == n.to_string())
                .then_some(())
        });
    };
    let long = json!({"timeout_ms": 2_000_000});
    let fill = mcp.start_sh(&sandbox, &format!("exec python3 fill.py {first}"), long.clone());
    times(1);
    let load = mcp.start_sh(
        &sandbox,
        "i=0; while [ $i -lt 64 ]; do (while :; do :; done) & i=$((i+1)); done; touch /tmp/busy; wait",
        long,
    );
    until("the load is on", || {
        (mcp.sh(&sandbox, "ls /tmp/busy 2>/dev/null; true").stdout == "/tmp/busy\n").then_some(())
    });
    let full = most * 99 / 100;
    if limited {
        let mut filled = 1;
        while let Some(missing) = full.checked_sub(memory(&mcp).0).filter(|missing| *missing > 0) {
            mcp.sh(&sandbox, &format!("echo {missing} > more")).good();
            filled += 1;
            times(filled);
        }
    }
    for _ in 0..10 {
        mcp.call("get_sandbox", json!({"sandbox_id": sandbox})).ok();
        mcp.call("list_files", json!({"sandbox_id": sandbox})).ok();
        assert!(mcp.read(&sandbox, "fill.py").contains("madvise"));
        assert_eq!(mcp.sh(&sandbox, "echo here").good(), "here");
    }
    assert!(mcp.reply_now(load).is_none(), "the load is still on");
    assert!(mcp.reply_now(fill).is_none(), "the memory is still held");
    if limited {
        let (used, limit) = memory(&mcp);
        assert_eq!(limit, most);
        assert!(used >= full - 4, "{used} of {limit} MiB are in use, not {full}");
    }
    mcp.destroy(&sandbox);
    assert_eq!(mcp.finish(load).code(), "sandbox_gone");
    assert_eq!(mcp.finish(fill).code(), "sandbox_gone");
    mcp.end(home);
}

/// Tries to raise every hard limit that there is, and prints each as it was before and is then.
const RAISE: &str = "import resource as r
for name in sorted(name for name in dir(r) if name.startswith('RLIMIT_')):
    which = getattr(r, name)
    soft, before = r.getrlimit(which)
    if before == r.RLIM_INFINITY: continue
    for more in before + 1, r.RLIM_INFINITY:
        try: r.setrlimit(which, (soft, more))
        except (OSError, ValueError): pass
    print(name, before, r.getrlimit(which)[1])
";

fn case_103_limits_hold_for_later_commands(home: &Home) {
    let mcp = home.mcp();
    let sandbox = mcp.create();
    mcp.write(&sandbox, "hog.py", HOG);
    for n in 1..=10 {
        mcp.sh(&sandbox, "true").good();
        if n == 2 || n == 10 {
            let run = mcp.sh_with(&sandbox, "python3 hog.py", json!({"timeout_ms": 200_000}));
            assert!(run.out_of_memory, "command {n}: {run:?}");
            // What it uses is counted, also in a session of its own; that the limit holds is seen
            // where it is below the host's processors (`inside_processors_end_at_their_limit`).
            let seconds = || {
                let view = mcp.call("get_sandbox", json!({"sandbox_id": sandbox}));
                view.ok()["usage"]["cpu_seconds"].as_f64().expect("a number")
            };
            let before = seconds();
            let hog = "setsid sh -c 'echo $$ > hog; while :; do :; done' >/dev/null 2>&1 &";
            mcp.sh(&sandbox, hog).good();
            until("a processor hog is counted", || (seconds() > before + 0.5).then_some(()));
            mcp.sh(&sandbox, "kill -9 $(cat hog)").good();
        }
    }
    let escape = "for d in $(find /sys/fs/cgroup -type d 2>/dev/null); do mkdir $d/sub 2>/dev/null && echo made $d; \
        for f in cgroup.procs tasks memory.max memory.limit_in_bytes pids.max cgroup.subtree_control; do \
        [ -e $d/$f ] && (echo 1 > $d/$f) 2>/dev/null && echo wrote $d/$f; done; done; echo end";
    assert_eq!(mcp.sh(&sandbox, escape).good(), "end");
    assert_eq!(mcp.sh_root(&sandbox, escape).good(), "end", "as root inside");
    mcp.write(&sandbox, "raise.py", RAISE);
    for user in ["sandbox", "root"] {
        let tried = mcp.sh_with(&sandbox, "python3 raise.py", json!({"user": user}));
        let mut names = Vec::new();
        for line in tried.good().lines() {
            let [name, before, after] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            assert_eq!(before, after, "{name} as {user}");
            names.push(name);
        }
        assert!(names.contains(&"RLIMIT_CORE") && names.contains(&"RLIMIT_NOFILE"), "{names:?}");
    }
    let run =
        mcp.sh_with(&sandbox, "python3 hog.py", json!({"timeout_ms": 200_000, "user": "root"}));
    assert!(run.out_of_memory, "as root: {run:?}");
    mcp.end(home);
}
