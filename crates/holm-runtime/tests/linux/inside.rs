//! What a sandbox is like inside: limits, devices, hidden things, mounts.

use std::os::unix::fs::PermissionsExt as _;

use holm_runtime::{DriverErrorKind, ExitReason, MountRo};

use crate::harness::Test;
use crate::leftovers;
use crate::rig::{Rig, base, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("inside_disk_ends_at_its_bytes", disk_ends_at_its_bytes),
    ("inside_disk_ends_at_its_inodes", disk_ends_at_its_inodes),
    ("inside_memory_ends_at_its_limit", memory_ends_at_its_limit),
    ("inside_processes_end_at_their_limit", processes_end_at_their_limit),
    ("inside_processors_end_at_their_limit", processors_end_at_their_limit),
    ("inside_root_has_little_power", root_has_little_power),
    ("inside_nothing_of_the_host_shows", nothing_of_the_host_shows),
    ("inside_mounts_are_read_only", mounts_are_read_only),
    ("inside_bad_mounts_are_refused", bad_mounts_are_refused),
    ("inside_usage_is_counted", usage_is_counted),
    ("inside_dirty_sandbox_is_destroyed", dirty_sandbox_is_destroyed),
];

/// Runs a script as a user in a fresh sandbox and compares what it prints.
fn check(user: &str, rows: &[(&str, &str)]) {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    for (script, want) in rows {
        assert_eq!(sh(&*machine, user, script), *want, "{user}: {script}");
    }
    rig.close();
}

/// All writable places share one limit, and it holds (field case 36).
fn disk_ends_at_its_bytes() {
    let full = "head -c 100000000 /dev/zero > $P/big 2>/dev/null; echo $?; \
                s=$(stat -c %s $P/big); [ $s -gt 50000000 ] && [ $s -lt 67108864 ] && echo near; \
                echo x > /workspace/more 2>/dev/null && echo wrote; rm $P/big; echo y > $P/z && echo ok";
    for place in ["/home/sandbox", "/tmp", "/var/tmp", "/workspace"] {
        let script = full.replace("$P", place);
        let rig = Rig::new(options());
        let machine = rig.create(spec()).unwrap();
        let text = sh(&*machine, "sandbox", &script);
        assert!(text.starts_with("1\nnear\n") && text.ends_with("ok\nexit 0\n"), "{place}: {text}");
        rig.close();
    }
    check(
        "sandbox",
        &[(
            "head -c 100000000 /dev/zero > /dev/shm/x 2>/dev/null; stat -c %s /dev/shm/x",
            "67108864\nexit 0\n",
        )],
    );
}

fn disk_ends_at_its_inodes() {
    let script = "cd /workspace; i=0; while echo > f$i; do i=$((i+1)); done 2>/dev/null; \
                  [ $i -gt 3000 ] && [ $i -lt 4096 ] && echo near; rm -rf f1*; echo > g && echo ok";
    check("sandbox", &[(script, "near\nok\nexit 0\n")]);
}

fn memory_ends_at_its_limit() {
    let rig = Rig::new(options());
    let mut small = spec();
    small.memory_bytes = 64 << 20;
    let machine = rig.create(small).unwrap();
    let text = sh(&*machine, "sandbox", "head -c 200000000 /dev/zero | tail -c 190000000 | wc -c");
    assert_ne!(text, "190000000\nexit 0\n");
    assert_eq!(sh(&*machine, "sandbox", "echo lives"), "lives\nexit 0\n");
    assert!(machine.usage().oom_kills.unwrap() > 0);
    rig.close();
}

/// Fewer processors inside than outside (field cases 99 and 103).
fn processors_end_at_their_limit() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("SKIP processors: this host has one, which is as many as a sandbox has");
        return;
    }
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    for (script, want) in [
        ("nproc", "1\nexit 0\n"),
        ("python3 -c 'import os; print(len(os.sched_getaffinity(0)))'", "1\nexit 0\n"),
        ("taskset -cp $$ | grep -c 'list: [0-9]*$'", "1\nexit 0\n"),
    ] {
        assert_eq!(sh(&*machine, "sandbox", script), want, "{script}");
    }
    // What programs see is no limit: whoever takes the other processors still gets no more time.
    let group = leftovers::group(&rig.driver.instance(), "cpu.stat").expect("it has a group");
    let throttled = || {
        let text = std::fs::read_to_string(group.join("cpu.stat")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        line.expect("a counter").parse::<u64>().unwrap()
    };
    assert_eq!(throttled(), 0);
    let busy =
        "for i in 1 2; do taskset -c 0-1023 sh -c 'while :; do :; done' >/dev/null 2>&1 & done";
    assert_eq!(sh(&*machine, "sandbox", busy), "exit 0\n");
    let start = std::time::Instant::now();
    while throttled() == 0 {
        assert!(
            start.elapsed() < std::time::Duration::from_secs(60),
            "two of one are never slowed"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    rig.close();
}

fn processes_end_at_their_limit() {
    let rig = Rig::new(options());
    let mut small = spec();
    small.max_processes = 20;
    let machine = rig.create(small).unwrap();
    let script =
        "i=0; while [ $i -lt 50 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo all";
    let text = sh(&*machine, "sandbox", &format!("({script}) 2>&1 | tail -1; kill -9 -1"));
    assert!(!text.contains("all"), "{text}");
    let other = rig.create(spec()).unwrap();
    assert_eq!(sh(&*other, "sandbox", "echo ok"), "ok\nexit 0\n");
    rig.close();
}

fn root_has_little_power() {
    check(
        "root",
        &[
            ("mount -t tmpfs none /mnt 2>/dev/null; echo $?", "32\nexit 0\n"),
            ("unshare -r true 2>/dev/null; echo $?", "1\nexit 0\n"),
            ("mknod /tmp/x b 7 0 2>/dev/null; echo $?", "1\nexit 0\n"),
            ("chown 70000 /tmp 2>/dev/null; echo $?", "1\nexit 0\n"),
            ("(echo 1 > /proc/sys/kernel/panic) 2>/dev/null; echo $?", "2\nexit 0\n"),
            ("(echo b > /proc/sysrq-trigger) 2>/dev/null; echo $?", "2\nexit 0\n"),
            ("dmesg >/dev/null 2>&1; echo $?", "1\nexit 0\n"),
            ("hostname other 2>/dev/null; hostname", "island\nexit 0\n"),
            ("touch /dev/x 2>/dev/null; echo $?", "1\nexit 0\n"),
            (
                "ls /sys | wc -l; ls /proc/fs | wc -l; cat /proc/cmdline /proc/kallsyms | wc -c",
                "0\n0\n0\nexit 0\n",
            ),
            (
                "touch /usr/bin/new && rm /usr/bin/new /usr/bin/yes && ls /usr/bin/yes 2>/dev/null; echo done",
                "done\nexit 0\n",
            ),
            (
                "mkdir /usr/lib/d && rmdir /usr/lib/d; rm -rf /usr/share/doc && mkdir /usr/share/doc && ls /usr/share/doc | wc -l",
                "0\nexit 0\n",
            ),
            ("nproc; ulimit -c; ulimit -Hc", "1\n0\n0\nexit 0\n"),
            ("[ $(ls /proc | grep -c '^[0-9]') -lt 8 ] && echo few", "few\nexit 0\n"),
            ("cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '", "lo\nexit 0\n"),
            (
                "stat -c '%U %G %a' /home/sandbox /workspace /tmp /root /etc/passwd",
                "sandbox sandbox 755\nsandbox sandbox 755\nroot root 1777\nroot root 700\nroot root 644\nexit 0\n",
            ),
        ],
    );
}

/// Files of the host that not everyone may read, and its accounts and names, are not there.
fn nothing_of_the_host_shows() {
    let secret = std::path::Path::new("/usr/local/share/holm-test-secret");
    let open = std::path::Path::new("/usr/local/share/holm-test-open");
    std::fs::write(secret, "secret").unwrap();
    std::fs::set_permissions(secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(open, "open").unwrap();
    std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let script =
        "cd /usr/local/share; cat holm-test-open; ls | grep -c holm-test; cat holm-test-secret";
    let text = sh(&*machine, "root", script);
    std::fs::remove_file(secret).unwrap();
    std::fs::remove_file(open).unwrap();
    assert_eq!(text, "open1\ncat: holm-test-secret: No such file or directory\nexit 1\n");
    let script = "ls /etc/shadow /etc/machine-id /etc/ssh /etc/ssl/private /boot/* 2>/dev/null | wc -l; env | sort | cut -d= -f1 | tr '\\n' ' '; grep -c holm-rt /proc/self/mountinfo";
    assert_eq!(sh(&*machine, "root", script), "0\nHOLM_GUEST_PROCESSES HOME PATH PWD 0\nexit 1\n");
    rig.close();
}

fn mounts_are_read_only() {
    let dir = base().join("shown");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(dir.join("file"), "hello").unwrap();
    std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
    let rig = Rig::new(options());
    let mut with = spec();
    let mount =
        |host: &std::path::Path, inside: &str| MountRo { host: host.into(), inside: inside.into() };
    with.mounts = vec![
        mount(&dir, "/data/deep/dir"),
        mount(&dir.join("file"), "/workspace/one"),
        // `home/user` is a link inside; the mount lands where it leads, inside.
        mount(&dir, "/home/user/d"),
    ];
    let machine = rig.create(with).unwrap();
    for (script, want) in [
        ("cat /data/deep/dir/file", "helloexit 0\n"),
        ("cat /workspace/one", "helloexit 0\n"),
        ("cat /home/sandbox/d/file", "helloexit 0\n"),
        ("(echo x > /data/deep/dir/file) 2>/dev/null; echo $?", "2\nexit 0\n"),
        ("(echo x > /workspace/one) 2>/dev/null; echo $?", "2\nexit 0\n"),
        ("grep -c ^sandbox: /data/deep/dir/link/passwd", "1\nexit 0\n"),
    ] {
        assert_eq!(sh(&*machine, "root", script), want, "{script}");
    }
    rig.close();
    assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "hello");
    std::fs::remove_dir_all(dir).unwrap();
}

fn bad_mounts_are_refused() {
    let rig = Rig::new(options());
    for (host, inside) in [
        ("/does/not/exist", "/data"),
        ("/etc/hostname", "relative"),
        ("/etc/hostname", "/"),
        ("/etc/hostname", "/proc/x"),
        ("/etc", "/dev"),
        ("/etc", "/usr"),
        ("/etc", "/a/../b"),
    ] {
        let mut bad = spec();
        bad.mounts = vec![MountRo { host: host.into(), inside: inside.into() }];
        let error = rig.create(bad).err().expect(inside);
        assert_eq!(error.kind, DriverErrorKind::BadMount, "{host} {inside}: {error:?}");
    }
    rig.close();
}

fn usage_is_counted() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let before = machine.usage();
    sh(&*machine, "sandbox", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
    let after = machine.usage();
    assert!(after.cpu_usec.unwrap() > before.cpu_usec.unwrap() + 1000, "{before:?} {after:?}");
    assert!(after.memory_bytes.unwrap() > 0 && after.processes.unwrap() >= 1, "{after:?}");
    assert_eq!(after.oom_kills, Some(0));
    rig.close();
}

/// Field case 38, with much unwritten data besides.
fn dirty_sandbox_is_destroyed() {
    let rig = Rig::new(options());
    let mut large = spec();
    large.disk_bytes = 512 << 20;
    let machine = rig.create(large).unwrap();
    let script = "cd /workspace; head -c 300000000 /dev/zero > big; \
        i=0; d=x; while [ $i -lt 300 ]; do mkdir -p x && cd x; i=$((i+1)); done; \
        mkdir /workspace/shut; chmod 000 /workspace/shut; cd /workspace/shut 2>/dev/null; \
        (sleep 1000 >/dev/null 2>&1 &) ; echo ready";
    let text = sh(&*machine, "sandbox", script);
    assert_eq!(text.lines().last(), Some("exit 0"), "{text}");
    assert!(text.contains("ready"), "{text}");
    rig.destroy(&*machine);
    assert_eq!(rig.runtime.block_on(machine.exited()), ExitReason::Destroyed);
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}
