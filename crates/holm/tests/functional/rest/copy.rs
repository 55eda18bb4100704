//! Trees as tar streams, by REST and by `holm cp`.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Rest, error_is};
use crate::common::{
    Answer, Exit, Home, Serve, as_root, as_rootless, finish, json, receive, until,
};

as_root!(
    trees_come_back_as_they_were,
    copies_go_where_they_are_sent,
    a_hostile_archive_is_refused,
    a_tree_that_is_too_large_is_said,
    an_archive_that_breaks_off_is_no_whole_one,
);
as_rootless!(trees_come_back_as_they_were, copies_go_where_they_are_sent);

fn cp(home: &Home, serve: &Serve, arguments: &[&str], input: &[u8]) -> Exit {
    let mut command = home.command();
    command.arg("cp").args(arguments).env("HOLM_URL", format!("http://{}", serve.address));
    command.env("HOLM_API_KEY", serve.key.as_deref().expect("a key"));
    finish(command, input)
}

fn copied(home: &Home, serve: &Serve, from: &str, to: &str) {
    let exit = cp(home, serve, &[from, to], b"");
    assert_eq!((exit.code(), exit.err()), (Some(0), String::new()), "{from} {to}");
    assert_eq!(exit.out(), "");
}

/// A directory that the user of this home may use.
fn place(home: &Home) -> PathBuf {
    let place = home.data().join("here");
    std::fs::create_dir(&place).expect("made");
    std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).expect("opened");
    place
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn trees_come_back_as_they_were(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let place = place(home);
    let long = "long".repeat(40);
    let tree = place.join("tree");
    std::fs::create_dir_all(tree.join("empty")).expect("made");
    std::fs::create_dir_all(tree.join(&long)).expect("made");
    std::fs::write(tree.join("plain"), vec![7; 3 << 20]).expect("written");
    std::fs::write(tree.join(&long).join(&long), "deep").expect("written");
    std::fs::write(tree.join("ünï & co?"), "odd").expect("written");
    std::fs::write(tree.join("tool"), "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(tree.join("tool"), PermissionsExt::from_mode(0o755)).expect("set");
    symlink("/etc/hostname", tree.join("link")).expect("made");
    copied(home, &serve, text(&tree), &format!("{}:", sandbox.id));
    assert_eq!(sandbox.good("cd tree; readlink link; stat -c '%a %U' tool; wc -c < plain"), {
        "/etc/hostname\n755 sandbox\n3145728\n"
    });
    let back = place.join("back");
    copied(home, &serve, &format!("{}:tree", sandbox.id), text(&back));
    for name in ["plain", "ünï & co?", "tool", &format!("{long}/{long}")] {
        let (was, is) = (std::fs::read(tree.join(name)), std::fs::read(back.join(name)));
        assert_eq!(was.expect("there"), is.expect("there too"), "{name}");
    }
    assert!(back.join("empty").is_dir());
    assert_eq!(std::fs::read_link(back.join("link")).expect("a link"), Path::new("/etc/hostname"));
    let mode = std::fs::metadata(back.join("tool")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    serve.end();
}

fn copies_go_where_they_are_sent(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let (place, id) = (place(home), sandbox.id.as_str());
    let file = place.join("f");
    std::fs::write(&file, "one").expect("written");
    std::fs::create_dir(place.join("d")).expect("made");
    std::fs::set_permissions(place.join("d"), PermissionsExt::from_mode(0o777)).expect("opened");
    std::fs::write(place.join("d/in"), "in").expect("written");
    for (from, to, is) in [
        ("f", "", "/workspace/f"),
        ("f", "/tmp", "/tmp/f"),
        ("f", "/tmp/g", "/tmp/g"),
        ("f", "new/deep/", "/workspace/new/deep/f"),
        ("f", "new/deep/h", "/workspace/new/deep/h"),
    ] {
        copied(home, &serve, text(&place.join(from)), &format!("{id}:{to}"));
        assert_eq!(sandbox.good(&format!("cat '{is}'")), "one", "{from} {to}");
    }
    copied(home, &serve, &format!("{}/.", text(&place.join("d"))), &format!("{id}:spread"));
    copied(home, &serve, text(&place.join("d")), &format!("{id}:spread"));
    assert_eq!(sandbox.good("cd spread; cat in d/in"), "inin");
    // Back: under its own name into a directory, else under the name given; what is there is replaced.
    copied(home, &serve, &format!("{id}:spread/in"), text(&place.join("d")));
    sandbox.good("echo two > f");
    copied(home, &serve, &format!("{id}:f"), text(&file));
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "two\n");
    // As streams.
    let tar = cp(home, &serve, &[&format!("{id}:spread"), "-"], b"");
    assert_eq!(tar.code(), Some(0), "{}", tar.err());
    let exit = cp(home, &serve, &["-", &format!("{id}:/tmp/again")], &tar.stdout);
    assert_eq!(exit.code(), Some(0), "{}", exit.err());
    assert_eq!(sandbox.good("cat /tmp/again/d/in"), "in");
    // Where nobody may write.
    let refused = cp(home, &serve, &[text(&file), &format!("{id}:/proc/f")], b"");
    assert_eq!(refused.code(), Some(1), "{}", refused.out());
    for (arguments, code, part) in [
        (&[text(&file), "/tmp/x"][..], 2, "ID:PATH"),
        (&["nowhere", &format!("{id}:x")], 1, "nowhere"),
        (&[&format!("{id}:nowhere"), text(&file)], 1, "nowhere"),
        (&["sbx_1:x", "y"], 2, "the sandbox"),
    ] {
        let refused = cp(home, &serve, arguments, b"");
        assert_eq!(refused.code(), Some(code), "{arguments:?} {}", refused.err());
        assert!(refused.err().contains(part), "{arguments:?} {}", refused.err());
    }
    let left = std::fs::read_dir(&place).expect("a directory").count();
    assert_eq!(left, 2, "no half of a file");
    serve.end();
}

/// An archive of one entry by the rules, whatever it says.
fn archive(name: &str, kind: u8, target: &str) -> Vec<u8> {
    let mut head = vec![0; 512];
    head[..name.len()].copy_from_slice(name.as_bytes());
    head[100..107].copy_from_slice(b"0000644");
    head[124..135].copy_from_slice(b"00000000000");
    head[156] = kind;
    head[157..157 + target.len()].copy_from_slice(target.as_bytes());
    head[257..265].copy_from_slice(b"ustar\x0000");
    head[148..156].fill(b' ');
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    head.resize(512 * 3, 0);
    head
}

fn upload(sandbox: &Rest<'_>, path: &str, bytes: &[u8]) -> Answer {
    let mut stream = sandbox.put(&format!("archive?path={path}"), bytes.len());
    stream.write_all(bytes).expect("sent");
    receive(stream)
}

fn a_hostile_archive_is_refused(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("mkdir d; ln -s / d/root");
    for bytes in [
        archive("../out", b'0', ""),
        archive("/tmp/out", b'0', ""),
        archive("root/tmp/out", b'0', ""),
        archive("null", b'3', ""),
        b"no archive, but long enough to be taken for the head of an entry".repeat(20),
    ] {
        let answer = upload(&sandbox, "d", &bytes);
        assert!((400..500).contains(&answer.status), "{answer:?}");
    }
    assert_eq!(sandbox.good("ls; ls d; ls /tmp"), "d\nroot\n");
    let answer = upload(&sandbox, "d", &archive("fine", b'5', ""));
    assert_eq!(answer.status, 200, "{answer:?}");
    serve.end();
}

fn a_tree_that_is_too_large_is_said(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    error_is(&receive(sandbox.put("archive?path=d", 1 << 50)), 413, "too_large");
    serve.end();
}

fn an_archive_that_breaks_off_is_no_whole_one(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let mut whole = archive("big", b'0', "");
    whole[124..135].copy_from_slice(b"00004000000");
    whole[148..156].fill(b' ');
    let sum: u32 = whole[..512].iter().map(|byte| u32::from(*byte)).sum();
    whole[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut stream = sandbox.put("archive?path=d", 512 + (1 << 20) + 1024);
    stream.write_all(&whole[..512]).expect("sent");
    stream.write_all(&vec![1; 600_000]).expect("sent");
    until("the guest has begun", || {
        (!sandbox.good("ls d 2>/dev/null || :").is_empty()).then_some(())
    });
    drop(stream);
    // The file at hand does not stay.
    until("it is gone again", || (sandbox.good("ls d").is_empty()).then_some(()));
    serve.end();
}
