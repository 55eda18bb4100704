//! What a layer is on disk, and what overlays make of several.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use holm_template::{Template, TemplateErrorKind};

use crate::harness::Test;
use crate::image::{GZIP, PLAIN, ZSTD, layout};
use crate::place::{Place, on_disk};
use crate::tar::{Head, Tar};

pub const TESTS: &[Test] = &[
    ("a_layer_is_as_its_archive_says", a_layer_is_as_its_archive_says),
    ("case_93_what_a_layer_takes_away_is_away", case_93),
    ("case_95_ids_beyond_the_range_are_named", case_95),
    ("case_97_set_id_bits_and_capabilities_are_kept_as_they_are", case_97),
    ("names_are_long_and_files_have_holes", long_and_sparse),
    ("of_several_entries_the_last_one_counts", last_one_counts),
];

fn a_layer_is_as_its_archive_says() {
    let place = Place::new();
    let tar = Tar::default()
        .head(Head::new(b"./", b'5').mode(0o751), b"")
        .head(Head::new(b"etc/", b'5').owner(3, 4).mtime(77), b"")
        .head(Head::new(b"etc/passwd", b'0').owner(1000, 65_534).mode(0o640).size(5), b"root\n")
        .hard("etc/same", "etc/passwd")
        .symlink("etc/link", "/../../../etc/shadow")
        .head(Head::new(b"pipe", b'6').mode(0o600), b"")
        .head(Head::new(b"null", b'3'), b"")
        .pax(&[("SCHILY.xattr.user.note", b"hello"), ("SCHILY.xattr.security.selinux", b"x")])
        .file("noted", "n")
        .file("tmp/made/up", "1")
        .file("/absolute", "2")
        .done();
    let layout = layout(place.dir.join("layout"), &[(tar, GZIP)]);
    let template = place.import("one", &layout.dir).unwrap();
    let at = |path: &str| place.in_layer(&template, 0, path);
    let facts = |path: &str| fs::symlink_metadata(at(path)).unwrap();
    let owner = |path: &str| (facts(path).uid(), facts(path).gid());
    if on_disk(0).is_some() {
        assert_eq!(Some(facts("").uid()), on_disk(0));
        assert_eq!(Some(facts("etc").uid()), on_disk(3));
        assert_eq!(Some(facts("etc/passwd").uid()), on_disk(1000));
        assert_eq!(Some(facts("tmp/made").uid()), on_disk(0));
    } else {
        let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!((owner("etc"), owner("etc/passwd")), (me, me));
    }
    for (path, mode) in
        [("", 0o751), ("etc/passwd", 0o640), ("pipe", 0o600), ("tmp", 0o1777), ("tmp/made", 0o755)]
    {
        assert_eq!(facts(path).permissions().mode() & 0o7777, mode, "{path}");
    }
    assert_eq!((facts("etc").mtime(), facts("etc/passwd").mtime()), (77, 1_000_000));
    assert_eq!(facts("etc/passwd").ino(), facts("etc/same").ino());
    assert_eq!(fs::read_link(at("etc/link")).unwrap(), Path::new("/../../../etc/shadow"));
    assert!(facts("pipe").file_type().is_fifo());
    assert!(fs::symlink_metadata(at("null")).is_err(), "devices are left out");
    assert_eq!(fs::read_to_string(at("absolute")).unwrap(), "2");
    assert_eq!(fs::read_to_string(at("tmp/made/up")).unwrap(), "1");
    assert_eq!(xattr(&at("noted"), "user.note").as_deref(), Some(&b"hello"[..]));
    assert_ne!(xattr(&at("noted"), "security.selinux").as_deref(), Some(&b"x"[..]));
    // Only the owner reaches set-id programs in it.
    assert_eq!(fs::metadata(place.images()).unwrap().permissions().mode() & 0o777, 0o700);
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 256];
    rustix::fs::lgetxattr(path, name, &mut value[..]).ok().map(|length| value[..length].to_vec())
}

/// What a script sees in the overlay of all layers, with a writable one above.
fn merged(place: &Place, template: &Template, script: &str) -> String {
    let mut trees: Vec<String> = template
        .layers
        .iter()
        .map(|id| place.library.layer_tree(id).to_str().unwrap().to_owned())
        .collect();
    trees.reverse();
    let script = format!(
        "set -e; mount -t tmpfs t /mnt; mkdir /mnt/u /mnt/w /mnt/r; \
         mount -t overlay o -o userxattr,lowerdir={},upperdir=/mnt/u,workdir=/mnt/w /mnt/r; \
         cd /mnt/r; {script}",
        trees.join(":")
    );
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command.args(["--mount", "sh", "-c", &script]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    format!("{}{error}", String::from_utf8_lossy(&output.stdout))
}

fn case_93() {
    let place = Place::new();
    let first = Tar::default()
        .dir("a/")
        .file("a/b", "1")
        .dir("c/")
        .file("c/d", "2")
        .dir("e/")
        .file("e/f", "3");
    let second = Tar::default().dir("a/").file("a/.wh.b", "").file(".wh.e", "");
    // The mark comes after what the layer has itself, and a marker for what nobody has is none.
    let third = Tar::default()
        .dir("c/")
        .file("c/e", "4")
        .file("c/.wh..wh..opq", "")
        .file("own/.wh.nothing", "")
        .file("own/.wh..wh.plnk", "")
        .file(".wh.own2", "")
        .file("own2/x", "5");
    let layout = layout(
        place.dir.join("layout"),
        &[(first.done(), GZIP), (second.done(), ZSTD), (third.done(), PLAIN)],
    );
    let template = place.import("three", &layout.dir).unwrap();
    let hidden = fs::symlink_metadata(place.in_layer(&template, 1, "a/b")).unwrap();
    assert!(hidden.file_type().is_char_device() && hidden.rdev() == 0);
    let opaque = xattr(&place.in_layer(&template, 2, "c"), "user.overlay.opaque");
    assert_eq!(opaque.as_deref(), Some(&b"y"[..]));
    let list = "find . ! -path . | sort | tr '\\n' ' '";
    assert_eq!(merged(&place, &template, list), "./a ./c ./c/e ./own ./own2 ./own2/x ");
    let script = format!(
        "mkdir e; touch a/b; rm a/b; rm c/e; rmdir c; mkdir c; cat a/b 2>/dev/null || true; {list}"
    );
    assert_eq!(merged(&place, &template, &script), "./a ./c ./e ./own ./own2 ./own2/x ");
}

fn case_95() {
    for (uid, gid, named) in [
        (205_001, 0, "user 205001"),
        (0, 3_000_000_000, "group 3000000000"),
        (65_535, 0, "user 65535"),
    ] {
        for pax in [false, true] {
            let place = Place::new();
            let tar = Tar::default().file("first", "1");
            let tar = if pax {
                let (uid, gid) = (uid.to_string(), gid.to_string());
                tar.pax(&[("uid", uid.as_bytes()), ("gid", gid.as_bytes())]).file("theirs", "2")
            } else {
                tar.head(Head::new(b"theirs", b'0').owner(uid, gid).size(1), b"2")
            };
            let layers = [(Tar::default().file("below", "0").done(), PLAIN), (tar.done(), GZIP)];
            let layout = layout(place.dir.join("layout"), &layers);
            let result = place.import("ids", &layout.dir);
            if on_disk(0).is_none() {
                // Owners are not kept there, so none is too large.
                result.unwrap();
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!(error.kind, TemplateErrorKind::Ids, "{error}");
            for part in ["layer 2 of 2", "`theirs`", named, "0 to 65534"] {
                assert!(error.message.contains(part), "{error}");
            }
            place.assert_empty(named);
        }
    }
}

fn case_97() {
    // Version 2, CAP_NET_RAW, effective.
    let capability =
        b"\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let place = Place::new();
    let tar = Tar::default()
        .head(Head::new(b"su", b'0').mode(0o4755).owner(0, 42).size(1), b"s")
        .head(Head::new(b"wall", b'0').mode(0o2755).owner(0, 5).size(1), b"w")
        .pax(&[("SCHILY.xattr.security.capability", capability)])
        .head(Head::new(b"ping", b'0').mode(0o755).size(1), b"p");
    let layout = layout(place.dir.join("layout"), &[(tar.done(), PLAIN)]);
    let template = place.import("setid", &layout.dir).unwrap();
    for (name, mode) in [("su", 0o4755), ("wall", 0o2755), ("ping", 0o755)] {
        let facts = fs::metadata(place.in_layer(&template, 0, name)).unwrap();
        assert_eq!(facts.permissions().mode() & 0o7777, mode, "{name}");
    }
    let kept = xattr(&place.in_layer(&template, 0, "ping"), "security.capability");
    assert_eq!(kept.is_some(), on_disk(0).is_some(), "{kept:?}");
    // Its bits are the image's; whose capability it is, the kernel has written beside them.
    if let Some(kept) = kept {
        assert_eq!(kept[4..12], capability[4..12]);
    }
}

fn long_and_sparse() {
    let place = Place::new();
    let deep = format!("{}file", "d".repeat(200) + "/").repeat(8);
    let pax = format!("p/{deep}");
    let gnu = format!("g/{deep}");
    let target = "t".repeat(3000);
    let mut old = Head::new(b"old", b'S').gnu().size(1024);
    for (at, value) in [(386, 4096), (398, 512), (410, 1 << 20), (422, 512), (483, 2 << 20)] {
        let digits = format!("{value:011o}");
        old.block[at..at + 11].copy_from_slice(digits.as_bytes());
    }
    let list = b"4096,512,1048576,512";
    let lines = b"2\n4096\n512\n1048576\n512\n";
    let mut with_lines = lines.to_vec();
    with_lines.resize(512, 0);
    let content = [[b'x'; 512], [b'y'; 512]].concat();
    with_lines.extend(&content);
    let tar = Tar::default()
        .pax(&[("path", pax.as_bytes())])
        .file("short", "1")
        .long(b'L', gnu.as_bytes())
        .file("short", "2")
        .long(b'K', target.as_bytes())
        .symlink("link", "short")
        .head(old, &content)
        .pax(&[
            ("GNU.sparse.size", b"2097152"),
            ("GNU.sparse.map", list),
            ("GNU.sparse.name", b"one"),
        ])
        .head(Head::new(b"GNUSparseFile.0/one", b'0').size(1024), &content)
        .pax(&[
            ("GNU.sparse.size", b"2097152"),
            ("GNU.sparse.offset", b"4096"),
            ("GNU.sparse.numbytes", b"512"),
            ("GNU.sparse.offset", b"1048576"),
            ("GNU.sparse.numbytes", b"512"),
        ])
        .head(Head::new(b"zero", b'0').size(1024), &content)
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"new"),
            ("GNU.sparse.realsize", b"2097152"),
        ])
        .head(Head::new(b"GNUSparseFile.0/new", b'0').size(1536), &with_lines)
        .file("last", "end");
    let layout = layout(place.dir.join("layout"), &[(tar.done(), ZSTD)]);
    let template = place.import("long", &layout.dir).unwrap();
    let at = |path: &str| place.in_layer(&template, 0, path);
    assert_eq!(fs::read_to_string(at(&pax)).unwrap(), "1");
    assert_eq!(fs::read_to_string(at(&gnu)).unwrap(), "2");
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new(&target));
    assert_eq!(fs::read_to_string(at("last")).unwrap(), "end");
    let mut want = vec![0; 2 << 20];
    want[4096..4608].fill(b'x');
    want[1 << 20..(1 << 20) + 512].fill(b'y');
    for name in ["old", "one", "zero", "new"] {
        assert!(fs::read(at(name)).unwrap() == want, "{name}");
        let blocks = fs::metadata(at(name)).unwrap().blocks();
        assert!(blocks < 1024, "{name} has no holes: {blocks} blocks");
    }
}

fn last_one_counts() {
    let place = Place::new();
    let tar = Tar::default()
        .file("file", "1")
        .file("file", "2")
        .file("was-file", "x")
        .dir("was-file/")
        .file("was-file/in", "3")
        .dir("was-dir/")
        .file("was-dir/deep/in", "x")
        .file("was-dir", "4")
        .symlink("was-link", "/etc/passwd")
        .file("was-link", "5")
        .head(Head::new(b"mode/", b'5').mode(0o700), b"")
        .file("mode/in", "6")
        .head(Head::new(b"mode/", b'5').mode(0o711), b"")
        .file("h1", "7")
        .hard("h2", "h1")
        .file("h1", "8")
        .hard("h2", "h2");
    let mut bytes = tar.done();
    // What follows the end says nothing.
    bytes.extend(Tar::default().file("after", "x").done());
    let layout = layout(place.dir.join("layout"), &[(bytes, GZIP)]);
    let template = place.import("last", &layout.dir).unwrap();
    for (path, want) in [
        ("file", "2"),
        ("was-file/in", "3"),
        ("was-dir", "4"),
        ("was-link", "5"),
        ("mode/in", "6"),
        ("h1", "8"),
        ("h2", "7"),
    ] {
        let at = place.in_layer(&template, 0, path);
        assert_eq!(fs::read_to_string(at).unwrap(), want, "{path}");
    }
    let mode = fs::metadata(place.in_layer(&template, 0, "mode")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o711);
    assert!(!place.in_layer(&template, 0, "after").exists());
}
