//! Sandboxes whose root stands on layers of an image instead of the host's programs.

pub mod hostile;
pub mod tree;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use holm_runtime::{DriverErrorKind, Root, SandboxSpec};
use rustix::fs::XattrFlags;

use crate::harness::Test;
use crate::leftovers;
use crate::rig::{Rig, options, sh, spec};
use tree::Tree;

pub const TESTS: &[Test] = &[
    ("layers_a_small_image", a_small_image),
    ("layers_beside_blanks", beside_blanks),
    ("layers_on_memory", on_memory),
    ("layers_many_and_twins", many_and_twins),
    ("layers_that_are_none", that_are_none),
    ("case_93_deleted_things_stay_deleted", case_93_deleted_things_stay_deleted),
    ("case_97_set_id_bits_gain_nothing", case_97_set_id_bits_gain_nothing),
];

/// A sandbox on these layers, the lowest one first.
pub fn on(layers: &[&Tree]) -> SandboxSpec {
    SandboxSpec { root: Root::Layers(layers.iter().map(|tree| tree.path()).collect()), ..spec() }
}

/// What these scripts print, in a fresh sandbox on these layers.
pub fn check(layers: &[&Tree], user: &str, rows: &[(&str, &str)]) {
    let rig = Rig::new(options());
    let machine = rig.create(on(layers)).unwrap();
    for (script, want) in rows {
        assert_eq!(sh(&*machine, user, script), *want, "{user}: {script}");
    }
    rig.destroy(&*machine);
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// What every sandbox on layers has, whatever is in them.
pub const SURE: &[(&str, &str)] = &[
    ("test -e /proc/self/stat && test -c /dev/null && test -d /tmp && echo yes", "yes\nexit 0\n"),
    ("test -d /dev/pts && test -d /dev/shm && echo x > /dev/shm/x && echo yes", "yes\nexit 0\n"),
    (
        "test -f /etc/hostname -a -f /etc/hosts && grep -c nameserver /etc/resolv.conf",
        "2\nexit 0\n",
    ),
    ("wc -c < /proc/keys; ls /proc/acpi 2>/dev/null | wc -l", "0\n0\nexit 0\n"),
    ("cat /proc/self/mountinfo | grep -c layers; echo x > /x && cat /x && rm /x", "0\nx\nexit 0\n"),
];

fn a_small_image() {
    let tree = Tree::new().with_programs();
    tree.file("etc/passwd", "root:x:0:0::/root:/bin/sh\n").dir("root");
    check(&[&tree], "root", SURE);
    check(
        &[&tree],
        "root",
        &[
            ("ls /usr/bin/python3 /boot 2>/dev/null | wc -l", "0\nexit 0\n"),
            (
                "ls / | grep -v lib; cat /etc/passwd",
                "bin\ndev\netc\nproc\nroot\ntmp\nusr\nroot:x:0:0::/root:/bin/sh\nexit 0\n",
            ),
            ("stat -c %u:%g:%a /bin /bin/busybox /tmp", "0:0:755\n0:0:755\n0:0:1777\nexit 0\n"),
            ("echo more >> /etc/passwd && rm /bin/wc && ls /bin/wc 2>/dev/null", "exit 1\n"),
        ],
    );
    check(
        &[&tree],
        "sandbox",
        &[("echo x 2>/dev/null > /bin/x || echo no; id -u", "no\n1000\nexit 0\n")],
    );
    let text = std::fs::read_to_string(tree.path().join("etc/passwd")).unwrap();
    assert_eq!(text.lines().count(), 1, "a layer was written to");
    assert!(tree.path().join("bin/wc").is_symlink());
}

/// Blanks are for the host's programs; creates on layers neither get one nor are in their way.
fn beside_blanks() {
    let tree = Tree::new().with_programs();
    let rig = Rig::new(holm_runtime::LinuxOptions { blanks: 2, ..options() });
    for _ in 0..5 {
        let image = rig.create(on(&[&tree])).unwrap();
        let host = rig.create(spec()).unwrap();
        assert_eq!(sh(&*image, "root", "ls /usr/bin 2>/dev/null | wc -l"), "0\nexit 0\n");
        assert_eq!(sh(&*host, "root", "test -e /usr/bin/env && echo host"), "host\nexit 0\n");
        rig.destroy(&*image);
        rig.destroy(&*host);
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

fn on_memory() {
    let tree = Tree::new().with_programs();
    let rig = Rig::new(holm_runtime::LinuxOptions { disk_in_memory: true, ..options() });
    let machine = rig.create(on(&[&tree])).unwrap();
    for (script, want) in SURE {
        assert_eq!(sh(&*machine, "root", script), *want, "{script}");
    }
    rig.close();
}

fn many_and_twins() {
    let programs = Tree::new().with_programs();
    let twin = Tree::new();
    twin.file("twin", "twin");
    for count in [60, 110, Root::MAX_LAYERS - 2] {
        let layers: Vec<_> = (0..count).map(|_| Tree::new()).collect();
        for (number, layer) in layers.iter().enumerate() {
            layer.file(&format!("n/{number}"), "").file("last", &number.to_string());
        }
        let mut all = vec![&twin, &programs, &twin];
        all.extend(&layers);
        all.insert(30, &twin);
        let want = format!("{count}\n{}twinexit 0\n", count - 1);
        check(&all, "root", &[("ls /n | wc -l; cat /last /twin", &want)]);
    }
}

fn that_are_none() {
    let rig = Rig::new(options());
    let file = Tree::new();
    file.file("x", "");
    let link = Tree::new();
    link.link("x", "/");
    for bad in [file.path().join("x"), link.path().join("x"), "/nowhere".into(), "tmp".into()] {
        let spec = SandboxSpec { root: Root::Layers(vec![bad.clone()]), ..spec() };
        let error = rig.create(spec).err().unwrap();
        assert_eq!(error.kind, DriverErrorKind::UnknownTemplate, "{bad:?}: {error:?}");
        assert!(!error.message.contains(&*bad.to_string_lossy()), "{error}");
    }
    // One without anything: there is nothing that could be PID 1's libraries or a shell, so the
    // guest of these tests does not start; nothing is left of it all the same.
    let empty = Tree::new();
    if let Ok(machine) = rig.create(on(&[&empty])) {
        rig.destroy(&*machine);
    }
    let instance = rig.driver.instance().to_owned();
    rig.close();
    leftovers::assert_none(&instance, &[]);
}

/// Three layers; and the names go on to work when the sandbox uses them again.
pub fn three_layers() -> [Tree; 3] {
    let [low, middle, top] = [Tree::new().with_programs(), Tree::new(), Tree::new()];
    low.file("a/b", "b").file("a/stays", "").file("c/d", "d").dir("c/dir");
    middle.deleted("a/b");
    top.opaque("c").file("c/e", "e");
    [low, middle, top]
}

/// What those show, and what comes of using the names again.
pub const THREE: &[(&str, &str)] = &[
    ("cd / && find a c | sort", "a\na/stays\nc\nc/e\nexit 0\n"),
    ("ls -a /a /c | sort", "\n.\n.\n..\n..\n/a:\n/c:\ne\nstays\nexit 0\n"),
    ("cat /a/b /c/d 2>/dev/null; echo again > /a/b && cat /a/b", "again\nexit 0\n"),
    ("rm /a/b && ls /a; mkdir /a/b && ls -A /a/b; rmdir /a/b", "stays\nexit 0\n"),
    (
        "rm -r /c && ls /c 2>/dev/null; mkdir /c && ls -A /c; mkdir /c/dir; ls -A /c /c/dir",
        "/c:\ndir\n\n/c/dir:\nexit 0\n",
    ),
    (
        "echo d2 > /c/d; mv /c/d /c/f; ls /c; cat /c/f; rm -r /a && mkdir /a && ls -A /a",
        "dir\nf\nd2\nexit 0\n",
    ),
];

fn case_93_deleted_things_stay_deleted() {
    let [low, middle, top] = three_layers();
    check(&[&low, &middle, &top], "root", THREE);
}

fn case_97_set_id_bits_gain_nothing() {
    let tree = Tree::new().with_programs();
    let mode = |path: &str, mode| {
        std::fs::set_permissions(tree.path().join(path), std::fs::Permissions::from_mode(mode))
    };
    for name in ["suid", "capable"] {
        std::fs::copy("/bin/busybox", tree.at(&format!("{name}/busybox"))).unwrap();
    }
    mode("suid/busybox", 0o6755).unwrap();
    tree.file("writable", "x");
    mode("writable", 0o6777).unwrap();
    // cap_setuid, cap_sys_admin and all others, permitted and effective, version 2.
    let mut all = vec![0x01, 0x00, 0x00, 0x02];
    all.extend([0xff; 4].into_iter().chain([0; 4]).chain([0xff; 4]).chain([0; 4]));
    let capable = tree.path().join("capable/busybox");
    rustix::fs::setxattr(&capable, "security.capability", &all, XattrFlags::empty()).unwrap();
    check(
        &[&tree],
        "sandbox",
        &[
            // The bits are there to be seen, and give nothing.
            (
                "stat -c %a /suid/busybox; /suid/busybox id -u; /suid/busybox id -g",
                "6755\n1000\n1000\nexit 0\n",
            ),
            (
                "/capable/busybox grep -E 'Cap(Eff|Prm)' /proc/self/status | grep -vc 0000000000000000",
                "0\nexit 1\n",
            ),
            (
                "cp /bin/busybox /tmp/busybox && chmod 6755 /tmp/busybox && /tmp/busybox id -u",
                "1000\nexit 0\n",
            ),
            ("echo y >> /writable && stat -c %a /writable", "777\nexit 0\n"),
        ],
    );
    // Root inside makes one for the others: nobody gains by it either.
    let rig = Rig::new(options());
    let machine = rig.create(on(&[&tree])).unwrap();
    let made = sh(
        &*machine,
        "root",
        "cp /bin/busybox /tmp/busybox && chmod 6755 /tmp/busybox; stat -c %a /tmp/busybox",
    );
    assert_eq!(made, "6755\nexit 0\n");
    assert_eq!(sh(&*machine, "sandbox", "/tmp/busybox id -u"), "1000\nexit 0\n");
    rig.close();
    // Outside nothing has changed hands or bits.
    let suid = std::fs::metadata(tree.path().join("suid/busybox")).unwrap();
    assert_eq!((suid.uid(), suid.mode() & 0o7777), (0, 0o6755));
    let writable = std::fs::metadata(tree.path().join("writable")).unwrap();
    assert_eq!((writable.len(), writable.mode() & 0o7777), (1, 0o6777));
}
