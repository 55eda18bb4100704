//! What a sandbox has written, as an archive, which other sandboxes then stand on.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use holm_runtime::{DriverErrorKind, LinuxOptions, Machine, Packed, Root, SandboxSpec};

use crate::harness::Test;
use crate::layers::{on, tree::Tree};
use crate::leftovers;
use crate::outlive::is_alive;
use crate::rig::{Rig, options, sh, spec};

pub const TESTS: &[Test] = &[
    ("packed_over_the_host", over_the_host),
    ("packed_on_memory", on_memory),
    ("packed_on_layers", on_layers),
    ("packed_while_it_stands_still", while_it_stands_still),
    ("packed_by_nobody_any_more", by_nobody_any_more),
    ("packed_after_the_launcher_died", after_the_launcher_died),
    ("packed_what_cannot_be_kept", what_cannot_be_kept),
];

/// All of it.
fn pack(rig: &Rig, machine: &dyn Machine) -> (Vec<u8>, Packed) {
    let mut stream = rig.runtime.block_on(machine.pack()).unwrap();
    let mut archive = Vec::new();
    stream.read_to_end(&mut archive).unwrap();
    (archive, stream.finish().unwrap())
}

/// Gives an archive to `tar`, and answers what that prints.
fn tar(archive: &[u8], args: &[&str]) -> String {
    let mut tar = Command::new("tar")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = tar.stdin.take().unwrap();
    let printed = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(archive).unwrap());
        let mut text = String::new();
        tar.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    });
    assert!(tar.wait().unwrap().success());
    printed
}

fn unpack(archive: &[u8], to: &Path) {
    let dir = to.to_str().unwrap();
    tar(archive, &["-xpC", dir, "--numeric-owner", "--xattrs", "--xattrs-include=user.*"]);
}

/// What an ordinary user's sandbox has written; that one goes on.
pub fn of_a_user(rig: &Rig, machine: &dyn Machine) {
    let script = "cd /workspace && mkdir -p d && echo kept > d/kept && chmod 0 d/kept";
    assert_eq!(sh(machine, "sandbox", script), "exit 0\n");
    let (archive, packed) = pack(rig, machine);
    let listed = tar(&archive, &["-tv", "--numeric-owner"]);
    let line = listed.lines().find(|line| line.ends_with(" workspace/d/kept"));
    let line = line.unwrap_or_else(|| panic!("{listed}"));
    assert!(line.starts_with("---------- 1000/1000"), "{line}");
    assert!(packed.entries > 4 && packed.bytes > 4, "{packed:?}");
    assert_eq!(sh(machine, "sandbox", "rm -rf /workspace/d"), "exit 0\n");
}

const WRITE: &str = "set -e; cd /workspace; echo one > one; ln one two; ln -s /nowhere three
mkdir -m 2750 d; chown 7:8 d; echo x > d/.wh.name; chmod 4755 d/.wh.name
mkfifo pipe; truncate -s 20G sparse; printf end | dd of=sparse bs=1 seek=10G conv=notrunc 2>/dev/null
touch -d '2001-02-03 04:05:06.789' one; rm /usr/bin/env; rm -r /usr/share/doc; mkdir /usr/share/doc
echo new > /usr/share/doc/new; mkdir /top; echo 5 > /top/five; rm /etc/hosts; mkdir /etc/hosts";

const READ: &[(&str, &str)] = &[
    (
        "cat /workspace/one /workspace/two; stat -c '%h %y' /workspace/one | cut -c 1-25",
        "one\none\n2 2001-02-03 04:05:06.789\nexit 0\n",
    ),
    (
        "readlink /workspace/three; stat -c '%a %u:%g %F' /workspace/d /workspace/pipe",
        "/nowhere\n2750 7:8 directory\n644 0:0 fifo\nexit 0\n",
    ),
    ("cat /workspace/d/.wh.name; stat -c %a /workspace/d/.wh.name", "x\n4755\nexit 0\n"),
    (
        "stat -c %s /workspace/sparse; du -k /workspace/sparse | cut -f 1 | wc -c",
        "21474836480\n2\nexit 0\n",
    ),
    ("dd if=/workspace/sparse bs=1 skip=10G count=3 2>/dev/null", "endexit 0\n"),
    ("ls /usr/bin/env 2>/dev/null; ls /usr/share/doc; cat /top/five", "new\n5\nexit 0\n"),
    ("test -f /etc/hosts && test -d /home/sandbox && stat -c %u /workspace", "1000\nexit 0\n"),
    ("ls /usr/bin/cat", "/usr/bin/cat\nexit 0\n"),
];

/// Writes, packs, and reads in another sandbox over that; twice, so that layers lie over layers.
fn over_the_host_with(options: LinuxOptions) {
    let rig = Rig::new(options);
    let first = rig.create(spec()).unwrap();
    assert_eq!(sh(&*first, "root", WRITE), "exit 0\n");
    let (archive, packed) = pack(&rig, &*first);
    assert!(archive.len() < 8 << 20, "holes were written: {}", archive.len());
    assert!(packed.bytes < 4 << 20, "{packed:?}");
    // The same files give the same archive.
    assert!(pack(&rig, &*first).0 == archive);
    let lower = Tree::new();
    unpack(&archive, &lower.path());
    rig.destroy(&*first);
    let over = |trees: &[&Tree]| SandboxSpec {
        root: Root::Over(trees.iter().map(|tree| tree.path()).collect()),
        ..spec()
    };
    let second = rig.create(over(&[&lower])).unwrap();
    for (script, want) in READ {
        assert_eq!(sh(&*second, "root", script), *want, "{script}");
    }
    let more = "rm -r /workspace/d /top && echo two > /workspace/one && rm /usr/share/doc/new";
    assert_eq!(sh(&*second, "root", more), "exit 0\n");
    let upper = Tree::new();
    unpack(&pack(&rig, &*second).0, &upper.path());
    rig.destroy(&*second);
    let third = rig.create(over(&[&lower, &upper])).unwrap();
    let script = "ls /workspace /usr/share/doc; ls -d /top 2>/dev/null; cat /workspace/one";
    let want = "/usr/share/doc:\n\n/workspace:\none\npipe\nsparse\nthree\ntwo\ntwo\nexit 0\n";
    assert_eq!(sh(&*third, "root", script), want);
    rig.destroy(&*third);
    let instance = rig.driver.instance();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

fn over_the_host() {
    over_the_host_with(options());
}

fn on_memory() {
    over_the_host_with(LinuxOptions { disk_in_memory: true, ..options() });
}

fn on_layers() {
    let tree = Tree::new().with_programs();
    tree.file("a/b/c", "c").file("a/d", "d").file("e", "e");
    let rig = Rig::new(options());
    let machine = rig.create(on(&[&tree])).unwrap();
    let script = "rm /a/d && rm -r /a/b && mkdir /a/b && echo n > /a/b/n && echo f > /f && rm /e";
    assert_eq!(sh(&*machine, "root", script), "exit 0\n");
    let layer = Tree::new();
    let (archive, _) = pack(&rig, &*machine);
    unpack(&archive, &layer.path());
    let names = tar(&archive, &["-t"]);
    assert!(!names.contains("usr/") && !names.contains("etc/host"), "{names}");
    rig.destroy(&*machine);
    // What tar does not make, as the library does.
    for dir in ["", "a"] {
        let dir = layer.path().join(dir);
        rustix::fs::setxattr(dir, "user.overlay.origin", b"", rustix::fs::XattrFlags::empty())
            .unwrap();
    }
    let machine = rig.create(on(&[&tree, &layer])).unwrap();
    let want = "/a:\nb\n\n/a/b:\nn\nf\nexit 0\n";
    assert_eq!(sh(&*machine, "root", "ls -R /a; cat /f; ls /e 2>/dev/null || true"), want);
    rig.close();
}

/// Nothing inside goes on while a part of the archive is not read yet, and everything does after that.
fn while_it_stands_still() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let fill = "head -c 8000000 /dev/urandom > /workspace/large; cd /workspace
(while :; do echo x >> count; done) > /dev/null 2>&1 & while ! test -s count; do :; done";
    assert_eq!(sh(&*machine, "root", fill), "exit 0\n");
    let mut stream = rig.runtime.block_on(machine.pack()).unwrap();
    let mut start = vec![0; 4096];
    stream.read_exact(&mut start).unwrap();
    let used = || machine.usage().cpu_usec.unwrap();
    let before = used();
    let mut rest = Vec::new();
    let cpu = std::iter::repeat_with(|| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        used()
    });
    let after = cpu.take(10).last().unwrap();
    stream.read_to_end(&mut rest).unwrap();
    assert!(stream.finish().unwrap().paused);
    assert!(after - before < 20_000, "it went on: {before} {after}");
    leftovers::wait_until("it stands still for good", || used() > after + 50_000);
    assert_eq!(sh(&*machine, "root", "test -s /workspace/count"), "exit 0\n");
    rig.destroy(&*machine);
    rig.close();
}

/// Whoever wanted it is gone, or the sandbox is.
fn by_nobody_any_more() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let fill = "head -c 8000000 /dev/urandom > /workspace/large";
    assert_eq!(sh(&*machine, "root", fill), "exit 0\n");
    drop(rig.runtime.block_on(machine.pack()).unwrap());
    assert_eq!(sh(&*machine, "root", "echo on"), "on\nexit 0\n");
    drop(rig.runtime.block_on(machine.pack()).unwrap());
    // Whoever asks meanwhile waits for the end of what is under way.
    let mut stream = rig.runtime.block_on(machine.pack()).unwrap();
    let mut start = vec![0; 4096];
    stream.read_exact(&mut start).unwrap();
    rig.destroy(&*machine);
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert!(stream.finish().is_err());
    let instance = rig.driver.instance();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// The next launcher lets go on what the one before has stopped, and reads it as well.
fn after_the_launcher_died() {
    use rustix::process::{Pid, Signal, kill_process};
    for in_memory in [false, true] {
        let lifetime = holm_runtime::Lifetime::Owner;
        let rig = Rig::new(LinuxOptions { lifetime, disk_in_memory: in_memory, ..options() });
        let machine = rig.create(spec()).unwrap();
        let fill = "head -c 8000000 /dev/urandom > /workspace/large";
        assert_eq!(sh(&*machine, "root", fill), "exit 0\n");
        let mut stream = rig.runtime.block_on(machine.pack()).unwrap();
        let mut start = vec![0; 4096];
        stream.read_exact(&mut start).unwrap();
        let launcher = i32::try_from(rig.driver.launcher_pid()).ok().and_then(Pid::from_raw);
        let launcher = launcher.unwrap();
        kill_process(launcher, Signal::KILL).unwrap();
        // Whoever reads for it goes with it; until then it may come to its end.
        let pid = u32::try_from(launcher.as_raw_nonzero().get()).unwrap();
        leftovers::wait_until("the launcher is gone", || !is_alive(pid));
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        assert!(stream.finish().is_err());
        // Only its owner knows whether it is paused, so nobody else lets it go on.
        rig.runtime.block_on(machine.thaw()).unwrap();
        assert_eq!(sh(&*machine, "root", "echo on"), "on\nexit 0\n");
        let (archive, _) = pack(&rig, &*machine);
        assert!(tar(&archive, &["-t"]).contains("workspace/large\n"));
        rig.destroy(&*machine);
        rig.close();
    }
}

fn what_cannot_be_kept() {
    let rig = Rig::new(options());
    let machine = rig.create(spec()).unwrap();
    let deep = "cd /workspace; i=0; while [ $i -lt 1000 ]; do mkdir d && cd -P d || exit 9; i=$((i+1)); done";
    assert_eq!(sh(&*machine, "root", deep), "exit 0\n");
    let mut stream = rig.runtime.block_on(machine.pack()).unwrap();
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    let error = stream.finish().unwrap_err();
    assert_eq!(error.kind, DriverErrorKind::Unkeepable);
    assert!(error.message.contains("`/workspace/d/d/d"), "{}", error.message);
    assert_eq!(sh(&*machine, "root", "rm -r /workspace/d"), "exit 0\n");
    pack(&rig, &*machine);
    rig.close();
}
