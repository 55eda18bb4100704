//! Images that mean harm. Nothing is written outside, nothing is left, and the reason is said.

use std::fs;

use holm_template::TemplateErrorKind::{self, Damaged, Refused, TooLarge};
use holm_template::import::{Request, import};

use crate::harness::Test;
use crate::image::{GZIP, PLAIN, ZSTD, layout};
use crate::place::Place;
use crate::tar::{Head, Tar, gzip, zstd};

pub const TESTS: &[Test] = &[
    ("names_that_lead_out_are_refused", names),
    ("links_lead_nowhere", links),
    ("broken_archives_are_refused", broken),
    ("attributes_that_steer_the_overlay_are_refused", attributes),
    ("bombs_are_stopped", bombs),
    ("deep_and_wide_trees_can_be_removed", deep),
];

/// Imports what is refused: as a layer above a good one.
fn refused(tar: Vec<u8>, kind: TemplateErrorKind, part: &str) {
    let place = Place::new();
    let outside = place.dir.join("outside");
    fs::write(&outside, "untouched").unwrap();
    let below = Tar::default().dir("d/").file("d/f", "below").done();
    let layout = layout(place.dir.join("layout"), &[(below, PLAIN), (tar, GZIP)]);
    let error = place.import("hostile", &layout.dir).unwrap_err();
    assert_eq!(error.kind, kind, "{error}: {part}");
    assert!(
        error.message.contains(part) && error.message.contains("layer 2 of 2"),
        "{error}: {part}"
    );
    assert_eq!(fs::read_to_string(outside).unwrap(), "untouched");
    place.assert_empty(part);
    assert!(!fs::exists("/holm-escaped").unwrap());
}

fn names() {
    let up = "../".repeat(30) + "holm-escaped";
    for name in [&up, "a/../../holm-escaped", "d/..", "/../holm-escaped", "./../x"] {
        refused(Tar::default().file(name, "x").done(), Refused, "it holds `..`");
        refused(Tar::default().dir(name).done(), Refused, "it holds `..`");
        refused(Tar::default().symlink(name, "x").done(), Refused, "it holds `..`");
        refused(
            Tar::default().pax(&[("path", name.as_bytes())]).file("a", "x").done(),
            Refused,
            "it holds `..`",
        );
        refused(
            Tar::default().long(b'L', name.as_bytes()).file("a", "x").done(),
            Refused,
            "it holds `..`",
        );
    }
    let long = "n".repeat(256);
    let pax = |name: &[u8]| Tar::default().pax(&[("path", name)]).file("a", "x").done();
    refused(pax(long.as_bytes()), Refused, "longer than 255 bytes");
    refused(pax("a/".repeat(2100).as_bytes()), Refused, "longer than 4095 bytes");
    refused(pax(b"a\0b"), Refused, "a NUL");
    refused(Tar::default().file(".wh...", "").done(), Refused, "takes nothing away");
    refused(Tar::default().file(".wh..", "").done(), Refused, "takes nothing away");
    refused(Tar::default().file("d/.wh.", "").done(), Refused, "takes nothing away");
    refused(Tar::default().file(".wh.d/f", "").done(), Refused, "through a whiteout");
    refused(Tar::default().symlink("./", "/").done(), Refused, "the root is a directory");
    refused(
        Tar::default().file("f", "1").file("f/g", "2").done(),
        Refused,
        "`f` is not a directory",
    );
    refused(Tar::default().file("f", "1").dir("f/g/h").done(), Refused, "`f` is not a directory");
    // What steers a terminal is not shown.
    refused(Tar::default().file("\u{1b}[2J/../x", "").done(), Refused, "`\u{fffd}[2J/../x`");
}

fn links() {
    let through = "through a symbolic link";
    for target in ["/", "/tmp", "..", "../../../..", "d", "."] {
        refused(
            Tar::default().symlink("l", target).file("l/holm-escaped", "x").done(),
            Refused,
            through,
        );
        refused(Tar::default().symlink("l", target).dir("l/x/y").done(), Refused, through);
        refused(Tar::default().symlink("l", target).file("l/.wh.x", "").done(), Refused, through);
        refused(
            Tar::default().symlink("l", target).file("l/.wh..wh..opq", "").done(),
            Refused,
            through,
        );
        refused(
            Tar::default().symlink("l", target).file("f", "").hard("h", "l/f").done(),
            Refused,
            through,
        );
    }
    refused(
        Tar::default().dir("a/").symlink("a/b", "/etc").file("a/b/c/d", "x").done(),
        Refused,
        through,
    );
    refused(Tar::default().symlink("l", "").done(), Refused, "must lead somewhere");
    // A hard link's target is in the same layer, and a file.
    for target in ["d/f", "nothing", "d", "/etc/passwd", "x/y/z", "./", "w"] {
        let tar = Tar::default().dir("d/").file(".wh.w", "").hard("h", target);
        refused(tar.done(), Refused, "a hard link to");
    }
    refused(Tar::default().hard("h", "../../etc/passwd").done(), Refused, "it holds `..`");
    refused(Tar::default().hard("h", "h").done(), Refused, "a hard link to `h`");
    refused(Tar::default().file("t/f", "x").hard("t", "t/f").done(), Refused, "a hard link to");
    // A link to a link is a link; and one may replace the other.
    let place = Place::new();
    let tar = Tar::default()
        .symlink("l", "/etc/passwd")
        .hard("h", "l")
        .file("l", "own")
        .symlink("d", "/")
        .dir("d/")
        .file("d/f", "own");
    let layout = layout(place.dir.join("layout"), &[(tar.done(), ZSTD)]);
    let template = place.import("links", &layout.dir).unwrap();
    let at = |path: &str| place.in_layer(&template, 0, path);
    assert_eq!(fs::read_link(at("h")).unwrap().to_str(), Some("/etc/passwd"));
    assert_eq!(fs::read_to_string(at("l")).unwrap(), "own");
    assert_eq!(fs::read_to_string(at("d/f")).unwrap(), "own");
}

fn broken() {
    let good = Tar::default().file("first", &"x".repeat(1000)).open();
    // Cut off: in the header, in the content, in its padding.
    for length in [100, 511, 513, 1400, 1530] {
        refused(good[..length].to_vec(), Damaged, "breaks off");
    }
    let mut flipped = good.clone();
    flipped[0] ^= 1;
    refused(flipped, Refused, "checksum");
    refused(Tar::default().head(Head::new(b"x", b'Q'), b"").done(), Refused, "unknown kind `Q`");
    let mut size = Head::new(b"x", b'0');
    size.block[124..136].copy_from_slice(b"99999999999\0");
    refused(Tar::default().head(size.clone(), b"").done(), Refused, "the size in a header");
    size.block[124..136].copy_from_slice(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    refused(Tar::default().head(size.clone(), b"").done(), Refused, "the size in a header");
    size.block[124..136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    refused(Tar::default().head(size, b"").done(), TooLarge, "more than");
    let huge = Head::new(b"x", b'x').size(1 << 30);
    refused(Tar::default().head(huge, b"").done(), Refused, "too long");
    for record in ["5 a=b\n", "999 a=b\n", "path=x\n", "0 \n"] {
        let head = Head::new(b"x", b'x').size(record.len() as u64);
        refused(
            Tar::default().head(head, record.as_bytes()).file("f", "").done(),
            Refused,
            "pax record",
        );
    }
    refused(
        Tar::default().pax(&[("size", b"-1")]).file("f", "").done(),
        Refused,
        "size in a pax record",
    );
    refused(Tar::default().pax(&[("path", b"x")]).done(), Refused, "ends after a header's records");
    for map in ["0,512,0,512", "512,512,0,512", "4096,512", "0", "0,x", "18446744073709551615,512"]
    {
        let tar = Tar::default()
            .pax(&[("GNU.sparse.size", b"2048"), ("GNU.sparse.map", map.as_bytes())])
            .head(Head::new(b"f", b'0').size(1024), &[1; 1024]);
        refused(tar.done(), Refused, "sparse file");
    }
    let tar = Tar::default()
        .pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.realsize", b"2048")])
        .head(Head::new(b"f", b'0').size(512), &[b'1'; 512]);
    refused(tar.done(), Refused, "sparse file");
}

fn attributes() {
    for name in
        ["user.overlay.opaque", "user.overlay.redirect", "trusted.overlay.metacopy", "trusted.x"]
    {
        let key = format!("SCHILY.xattr.{name}");
        let file = Tar::default().pax(&[(&key, b"y")]).file("f", "").done();
        refused(file, Refused, name);
        refused(Tar::default().pax(&[(&key, b"y")]).dir("dir/").done(), Refused, name);
        refused(Tar::default().pax(&[(&key, b"y")]).symlink("l", "x").done(), Refused, name);
        refused(Tar::default().pax(&[(&key, b"y")]).dir("./").done(), Refused, name);
    }
}

fn bombs() {
    let check = |change: fn(&mut Request), packed: Vec<u8>, part: &str| {
        let place = Place::new();
        let path = place.dir.join("bomb");
        fs::write(&path, packed).unwrap();
        let mut request = Request::new("bomb");
        change(&mut request);
        let error = import(&place.library, &request, &path, &()).unwrap_err();
        assert_eq!(error.kind, TooLarge, "{error}");
        assert!(error.message.contains(part), "{error}");
        place.assert_empty(part);
    };
    let bytes = |request: &mut Request| request.limits.bytes = 1 << 20;
    let entries = |request: &mut Request| request.limits.entries = 100;
    let zeros =
        Tar::default().head(Head::new(b"zeros", b'0').size(32 << 20), &vec![0; 32 << 20]).done();
    check(bytes, gzip(&zeros), "more than 1048576 bytes");
    check(bytes, zstd(&zeros), "more than 1048576 bytes");
    // After the archive's end.
    let mut after = Tar::default().file("f", "").done();
    after.resize(32 << 20, 0);
    check(bytes, gzip(&after), "unpacks to more than 1048576 bytes");
    // A hole of an exabyte.
    let sparse = Tar::default()
        .pax(&[("GNU.sparse.size", b"1152921504606846976"), ("GNU.sparse.map", b"0,512")])
        .head(Head::new(b"hole", b'0').size(512), &[1; 512])
        .done();
    check(|_| {}, gzip(&sparse), "files have more than");
    let many = (0..101).fold(Tar::default(), |tar, n| tar.file(&format!("{n}"), ""));
    check(entries, gzip(&many.done()), "more than 100 entries");
    let links = (0..101).fold(Tar::default(), |tar, _| tar.file(".wh.x", ""));
    check(entries, gzip(&links.done()), "more than 100 entries");
}

fn deep() {
    let place = Place::new();
    let deep = "d/".repeat(2000);
    let wide = (0..3000).fold(Tar::default(), |tar, n| {
        tar.file(&format!("wide/{n}/file-with-a-name-that-fills-a-buffer-of-names"), "x")
    });
    let tar = wide
        .pax(&[("path", deep.as_bytes())])
        .head(Head::new(b"d", b'5').mode(0), b"")
        .head(Head::new(b"d", b'5').mode(0), b"");
    let layout = layout(place.dir.join("layout"), &[(tar.done(), GZIP)]);
    place.import("deep", &layout.dir).unwrap();
    assert!(place.library.remove("deep").unwrap());
    assert_eq!(place.library.prune().unwrap().layers, 1);
    place.assert_empty("pruned");
}
