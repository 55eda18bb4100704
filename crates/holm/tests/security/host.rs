//! The host's side: its sockets, its loopback, its secrets, its other holms, and its death.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::*;

as_root!(
    sockets_of_the_host_are_out_of_reach,
    secrets_of_the_service_are_nowhere,
    two_holms_never_meet,
    killed_holm_leaves_nothing,
    killed_launcher_leaves_nothing,
    directories_are_private,
    directories_of_others_are_refused,
);
as_rootless!(
    sockets_of_the_host_are_out_of_reach,
    secrets_of_the_service_are_nowhere,
    killed_holm_leaves_nothing,
    killed_launcher_leaves_nothing,
    directories_are_private,
    directories_of_others_are_refused,
    the_usual_runtime_directory_cannot_be_taken_over,
);

fn sockets_of_the_host_are_out_of_reach(home: &Home) {
    let name = format!("holm-test-{}-{}", std::process::id(), home.mode as u8);
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let listener = UnixListener::bind_addr(&address).expect("an abstract socket");
    let path = home.dir.join("socket");
    let _by_path = UnixListener::bind(&path).expect("a socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("non-blocking");
    tcp.set_nonblocking(true).expect("non-blocking");
    let mcp = home.mcp();
    let sandbox = mcp.create();
    // What the gate refuses it may have to take first, so that only the answer tells.
    let script = format!(
        "import socket
INET, INET6, UNIX = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
for family, to in (
  (UNIX, '\\0{name}'), (UNIX, '{}'), (UNIX, '/run/docker.sock'),
  (UNIX, '/var/run/dbus/system_bus_socket'), (INET, ('127.0.0.1', {port})), (INET6, ('::1', {port})),
  (INET, ('0.0.0.0', {port})), (INET, ('10.0.0.1', {port})),
):
  s = socket.socket(family); s.settimeout(100)
  try: s.connect(to)
  except OSError: continue
  try: s.recv(1)
  except ConnectionResetError: continue
  except OSError: pass
  print('connected', to)
print('end')
",
        path.display()
    );
    mcp.write(&sandbox, "connect.py", &script);
    for user in home.users() {
        assert_eq!(
            mcp.sh_with(
                &sandbox,
                "python3 connect.py",
                json!({"user": user, "timeout_ms": 600_000})
            )
            .good(),
            "end",
            "{user}"
        );
        let listed = mcp.sh_with(&sandbox, "cat /proc/net/unix", json!({"user": user}));
        assert!(!listed.stdout.contains(&name), "{user}: names of the host's sockets are seen");
        assert!(!listed.stdout.contains("holm-t"), "{user}: {}", listed.stdout);
    }
    assert!(listener.accept().is_err() && tcp.accept().is_err(), "nobody came");
    mcp.end(home);
}

fn secrets_of_the_service_are_nowhere(home: &Home) {
    let mark = "marker-5e1d7c";
    let mcp = home.mcp_with(&[
        ("HOLM_API_KEY_FOR_TEST", mark),
        ("AWS_SECRET_ACCESS_KEY", mark),
        ("LD_PRELOAD_X", mark),
    ]);
    let sandbox = mcp.create();
    // In environments, arguments, memory that can be read, files, and the start of the stack.
    let script = "import os, re\nfound = []\nfor pid in filter(str.isdigit, os.listdir('/proc')):\n  if int(pid) == os.getpid(): continue\n  for name in ('environ', 'cmdline', 'mountinfo', 'cgroup', 'maps', 'auxv'):\n    try:\n      if b'marker-5' + b'e1d7c' in open(f'/proc/{pid}/{name}', 'rb').read(): found.append((pid, name))\n    except OSError: pass\n  try:\n    mem = open(f'/proc/{pid}/mem', 'rb')\n    for line in open(f'/proc/{pid}/maps'):\n      a, b = (int(x, 16) for x in line.split()[0].split('-'))\n      if 'r' in line.split()[1] and b - a < 1 << 26:\n        try:\n          mem.seek(a)\n          if b'marker-5' + b'e1d7c' in mem.read(b - a): found.append((pid, 'mem'))\n        except (OSError, ValueError): pass\n  except OSError: pass\nprint(found)\n";
    mcp.write(&sandbox, "/dev/shm/search.py", script);
    for user in home.users() {
        let run = mcp.sh_with(
            &sandbox,
            "python3 /dev/shm/search.py",
            json!({"user": user, "timeout_ms": 120_000}),
        );
        assert_eq!(run.good(), "[]", "{user}");
        let files = mcp.sh_with(&sandbox, &format!("env | grep -c {mark}; grep -rls {mark} /etc /run /tmp /var /home /workspace 2>/dev/null; true"), json!({"user": user, "timeout_ms": 120_000}));
        assert_eq!(files.good(), "0", "{user}");
    }
    // Nor in the processes that stand between holm and the sandbox.
    home.note_instances();
    for (pid, _) in descendants(mcp.pid()) {
        let mut environment = Vec::new();
        if let Ok(mut file) = std::fs::File::open(format!("/proc/{pid}/environ")) {
            file.read_to_end(&mut environment).expect("it can be read");
        }
        assert!(
            !String::from_utf8_lossy(&environment).contains(mark),
            "{pid}: {}",
            command_line(pid)
        );
    }
    mcp.end(home);
}

fn two_holms_never_meet(home: &Home) {
    let (first, second) = (home.mcp(), home.mcp());
    let (one, two) = (first.create(), second.create());
    assert_eq!(first.list(), vec![one.clone()]);
    assert_eq!(
        first.call("run_command", json!({"sandbox_id": two, "command": "true"})).code(),
        "not_found"
    );
    assert_eq!(first.call("destroy_sandbox", json!({"sandbox_id": two})).code(), "not_found");
    // Starts and ends of others, in the same directories, sweep nothing that lives.
    for _ in 0..5 {
        let third = home.mcp();
        third.create();
        third.end(home);
        assert_eq!(home.holm(&["run", "--", "true"]).code(), Some(0));
        assert_eq!(second.sh(&two, "echo lives").good(), "lives");
    }
    first.end(home);
    assert_eq!(second.sh(&two, "echo lives").good(), "lives");
    second.end(home);
}

fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not zero");
    kill_process(pid, signal).expect("it is ours");
}

/// A server with three sandboxes at work.
fn busy(home: &Home) -> Mcp {
    let mcp = home.mcp();
    for _ in 0..3 {
        let sandbox = mcp.create();
        mcp.start_sh(
            &sandbox,
            "setsid sh -c 'while :; do date >> tick; done' & touch up; sleep 3000",
            json!({"timeout_ms": 600_000}),
        );
        until("it works", || {
            (mcp.sh(&sandbox, "ls up 2>/dev/null | wc -l").stdout == "1\n").then_some(())
        });
    }
    home.note_instances();
    mcp
}

fn killed_holm_leaves_nothing(home: &Home) {
    let mut mcp = busy(home);
    mcp.signal(Signal::KILL);
    mcp.wait();
    home.assert_clean();
    assert_eq!(home.holm(&["run", "--", "echo", "next"]).out(), "next\n");
}

fn killed_launcher_leaves_nothing(home: &Home) {
    let mut mcp = busy(home);
    let sandbox = mcp.list().remove(0);
    let call = mcp.start_sh(&sandbox, "echo up > up2; sleep 3000", json!({"timeout_ms": 600_000}));
    until("it runs", || {
        (mcp.sh(&sandbox, "ls up2 2>/dev/null | wc -l").stdout == "1\n").then_some(())
    });
    // The keeper, which would start another launcher, before that.
    for (keeper, _) in children(mcp.pid()) {
        let launchers = children(keeper);
        kill(keeper, Signal::KILL);
        launchers.iter().for_each(|(launcher, _)| kill(*launcher, Signal::KILL));
    }
    // The server notices, answers what runs, says so, and ends: nothing can be made any more, and
    // whoever runs it starts it again.
    assert_eq!(mcp.finish(call).code(), "sandbox_gone");
    assert_eq!(mcp.wait().code(), Some(1));
    let told = mcp.stderr();
    assert!(told.contains("error: the launcher process has ended"), "{told}");
    assert!(told.contains("hint: start holm mcp again"), "{told}");
    mcp.assert_protocol_only();
    // Both are gone: what is left now is swept by the next start at the latest.
    assert_eq!(home.holm(&["run", "--", "echo", "next"]).out(), "next\n");
    home.assert_clean();
}

fn directories_are_private(home: &Home) {
    use std::os::unix::fs::PermissionsExt as _;
    let mcp = home.mcp();
    mcp.create();
    let mut open = vec![home.data(), home.runtime()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            if meta.is_dir() && dir == home.runtime() {
                assert_eq!(
                    meta.permissions().mode() & 0o077,
                    0,
                    "{} is open to others",
                    entry.path().display()
                );
            }
        }
    }
    for dir in [home.data(), home.runtime()] {
        assert_eq!(dir.metadata().expect("it is there").permissions().mode() & 0o777, 0o700);
    }
    mcp.end(home);
}

/// What another user has put where holm wants its own is never used.
fn directories_of_others_are_refused(home: &Home) {
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
    let make = |name: &str, mode: u32, owner: u32| {
        let dir = home.dir.join(name);
        std::fs::create_dir(&dir).expect("a directory");
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).expect("its mode");
        if rustix::process::geteuid().is_root() {
            chown(&dir, Some(owner), Some(owner)).expect("its owner");
        }
        dir
    };
    let me = home.own_uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let mut traps = vec![make("open", 0o777, me), make("group", 0o770, me)];
    if rustix::process::geteuid().is_root() {
        traps.push(make("theirs", 0o777, 54_322));
        traps.push(traps[2].join("deep"));
        let link = home.dir.join("link");
        symlink(make("mine", 0o700, me), &link).expect("a link");
        lchown(&link, Some(54_322), Some(54_322)).expect("its owner");
        traps.push(link);
    }
    for variable in ["HOLM_RUNTIME_DIR", "HOLM_DATA_DIR"] {
        for trap in &traps {
            for args in [&["run", "--", "true"][..], &["mcp", "--local"], &["serve", "--port", "0"]]
            {
                let mut command = home.command();
                command.args(args).env(variable, trap);
                let exit = finish(command, b"");
                assert!(!exit.status.success(), "{variable} {}", trap.display());
                assert!(exit.err().contains(&format!("set {variable} to")), "{}", exit.err());
                assert!(exit.out().is_empty(), "{}", exit.out());
            }
        }
    }
    for trap in &traps {
        let list = std::fs::read_dir(trap).into_iter().flatten().count();
        assert_eq!(list, 0, "something was made in {}", trap.display());
    }
}

/// The place in `/tmp` that is used without `XDG_RUNTIME_DIR` may be somebody else's already.
fn the_usual_runtime_directory_cannot_be_taken_over(home: &Home) {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(uid) = home.own_uid else {
        println!("SKIP the usual runtime directory: it may be in use by this user");
        return;
    };
    let usual = std::path::PathBuf::from(format!("/tmp/holm-{uid}"));
    let run = || {
        let mut command = home.command();
        command.args(["run", "--", "echo", "done"]).env_remove("HOLM_RUNTIME_DIR");
        finish(command, b"")
    };
    assert_eq!(run().out(), "done\n");
    std::fs::remove_dir_all(&usual).expect("it was made");
    // Of the superuser, which this test is, and open to all.
    std::fs::create_dir(&usual).expect("a trap");
    std::fs::set_permissions(&usual, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    let trapped = run();
    std::fs::remove_dir(&usual).expect("it is empty");
    assert_ne!(trapped.code(), Some(0));
    assert!(
        trapped.err().contains(&format!("{}: belongs to user 0", usual.display())),
        "{}",
        trapped.err()
    );
}
