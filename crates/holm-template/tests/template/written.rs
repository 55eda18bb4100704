//! Layers of what a sandbox has written, and snapshots on top of them.

use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use holm_runtime::archive::map;
use holm_template::{
    Library, Limits, NewSnapshot, TemplateConfig, TemplateError, TemplateErrorKind, Written,
};

use crate::crash::until;
use crate::harness::Test;
use crate::place::{Place, assert_gone, on_disk};
use crate::tar::{Head, Tar};

pub const TESTS: &[Test] = &[
    ("what_was_written_is_kept_as_it_was", kept_as_it_was),
    ("of_half_an_archive_no_layer_becomes", half),
    ("what_is_larger_than_allowed_is_refused", too_large),
    ("a_kill_while_a_layer_is_written_leaves_nothing", killed),
    ("a_snapshot_is_its_owners", snapshots),
    ("what_is_hidden_goes_when_nobody_has_it", hidden),
];

type Answer = Result<Written, TemplateError>;

pub fn write(library: &Library, archive: &[u8], limits: Limits) -> Answer {
    library.write_layer(archive, |_| Ok(()), limits)
}

pub fn snapshot(owner: &str, name: &str) -> NewSnapshot {
    NewSnapshot {
        owner: owner.to_owned(),
        name: name.to_owned(),
        layers: Vec::new(),
        on_host: true,
        config: TemplateConfig::default(),
        source: "test".to_owned(),
    }
}

fn hostile() -> Vec<u8> {
    let name = b"new\nline \xff\x1b[31m";
    let pieces = map(&[(1 << 40, 3), (1 << 41, 0)]);
    let stored = [pieces.as_slice(), b"end"].concat();
    let sparse = Head::new(b"GNUSparse", b'0').size(stored.len() as u64);
    Tar::default()
        .dir("./")
        .dir("d/")
        .head(Head::new(b"d/.wh.file", b'0').size(1).mode(0o4755).owner(7, 8), b"x")
        .dir("d/.wh..wh..opq/")
        .file("d/.wh..wh..opq/below", "y")
        .head(Head::new(b"d/gone", b'3'), b"")
        .pax(&[("SCHILY.xattr.user.overlay.opaque", b"y"), ("SCHILY.xattr.user.own", b"v")])
        .dir("opaque/")
        .pax(&[("path", name)])
        .file("x", "named")
        .head(Head::new(b"linked", b'1').link(b"d/.wh.file"), b"")
        .symlink("out", "../../../../etc/passwd")
        .pax(&[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"sparse"),
            ("GNU.sparse.realsize", (1_u64 << 41).to_string().as_bytes()),
        ])
        .head(sparse, &stored)
        .done()
}

fn kept_as_it_was() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    let written = write(&place.library, &hostile(), Limits::default()).unwrap();
    let tree = place.library.layer_tree(written.id());
    let file = fs::metadata(tree.join("d/.wh.file")).unwrap();
    assert_eq!((file.mode() & 0o7777, file.nlink()), (0o4755, 2));
    if let (Some(uid), Some(gid)) = (on_disk(7), on_disk(8)) {
        assert_eq!((file.uid(), file.gid()), (uid, gid));
    }
    assert_eq!(fs::read_to_string(tree.join("d/.wh..wh..opq/below")).unwrap(), "y");
    let gone = fs::symlink_metadata(tree.join("d/gone")).unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let xattr = |path: &Path, name: &str| {
        let mut value = [0; 16];
        rustix::fs::getxattr(path, name, &mut value).map(|length| value[..length].to_vec())
    };
    assert_eq!(xattr(&tree.join("opaque"), "user.overlay.opaque").unwrap(), b"y");
    assert_eq!(xattr(&tree.join("opaque"), "user.own").unwrap(), b"v");
    assert!(xattr(&tree.join("d"), "user.overlay.opaque").is_err());
    let name = std::ffi::OsStr::from_bytes(b"new\nline \xff\x1b[31m");
    assert_eq!(fs::read_to_string(tree.join(name)).unwrap(), "named");
    assert_eq!(fs::read_link(tree.join("out")).unwrap(), Path::new("../../../../etc/passwd"));
    let sparse = fs::metadata(tree.join("sparse")).unwrap();
    assert_eq!(sparse.len(), 1 << 41);
    assert!(sparse.blocks() < 1000 && written.bytes() < 1000);
    // The same once more is the same layer.
    let again = write(&place.library, &hostile(), Limits::default()).unwrap();
    assert_eq!(again.id(), written.id());
    place.library.discard(again).unwrap();
    assert!(tree.exists(), "somebody has it");
    place.library.discard(written).unwrap();
    place.assert_empty("discarded");
    for (kind, name) in
        [(b'0', "user.overlay.opaque"), (b'5', "user.overlay.redirect"), (b'5', "trusted.x")]
    {
        let key = format!("SCHILY.xattr.{name}");
        let tar = Tar::default().pax(&[(&key, b"y")]).head(Head::new(b"f", kind), b"").done();
        let error = write(&place.library, &tar, Limits::default()).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::Refused, "{name}");
    }
    for name in ["../x", "a/../../x"] {
        let tar = Tar::default().file(name, "x").done();
        let error = write(&place.library, &tar, Limits::default()).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::Refused, "{name}");
    }
    place.assert_empty("refused");
}

fn half() {
    let place = Place::new();
    let archive = hostile();
    for length in [0, 512, 5 * 512 + 100, archive.len() - 2048, archive.len()] {
        let part = &archive[..length];
        let whole = |_| Err(TemplateError::new(TemplateErrorKind::Damaged, "it ended"));
        let error = place.library.write_layer(part, whole, Limits::default()).unwrap_err();
        assert_eq!(error.message, "it ended", "{length}");
        place.assert_empty("half an archive");
    }
    assert_gone();
}

fn too_large() {
    let place = Place::new();
    let ones = vec![1; 4 << 20];
    let tar = Tar::default().head(Head::new(b"ones", b'0').size(4 << 20), &ones).done();
    let few = Limits { bytes: 1 << 20, ..Limits::default() };
    let error = write(&place.library, &tar, few).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::TooLarge, "{error:?}");
    let full = Limits { reserve_bytes: u64::MAX, ..Limits::default() };
    let error = write(&place.library, &tar, full).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::DiskFull, "{error:?}");
    place.assert_empty("too large");
}

fn killed() {
    let place = Place::new();
    let data = place.dir.join("data");
    let mut child = Command::new("/proc/self/exe")
        .args(["write-child", data.to_str().unwrap()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&Tar::default().file("first", "x").open()).unwrap();
    input.write_all(&Tar::default().file("second", &"y".repeat(1 << 20)).open()).unwrap();
    until("no draft is begun", || {
        let begun =
            |draft: &String| place.images().join("drafts").join(draft).join("tree/first").exists();
        place.names("drafts").iter().any(begun)
    });
    assert_eq!(place.library.sweep().unwrap(), 0, "a draft of the living");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_gone();
    assert_eq!(place.names("layers"), Vec::<String>::new());
    assert_eq!(place.library.sweep().unwrap(), 1);
    place.assert_empty("swept");
}

/// Writes a layer of its standard input, and a snapshot of that, until it is killed.
pub fn write_child(args: &mut dyn Iterator<Item = String>) -> i32 {
    let library = Library::open(Path::new(&args.next().unwrap())).unwrap();
    let stream = std::io::stdin().by_ref().lock();
    let written = library.write_layer(stream, |_| Ok(()), Limits::default()).unwrap();
    library.snapshot_record(&snapshot("acc", "killed"), written).unwrap();
    0
}

fn snapshots() {
    let place = Place::new();
    let library = &place.library;
    let layer = |text: &str| {
        write(library, &Tar::default().file("f", text).done(), Limits::default()).unwrap()
    };
    let record = |wanted: &NewSnapshot, text: &str| {
        let held = library.snapshot_record(wanted, layer(text)).unwrap();
        held.map(|held| held.template().unwrap().clone())
    };
    let one = record(&snapshot("acc_a", "one"), "1").unwrap();
    assert_eq!(record(&snapshot("acc_a", "one"), "3"), None);
    assert_eq!(place.names("layers").len(), 1, "what became of no snapshot is gone");
    record(&snapshot("acc_b", "one"), "1").unwrap();
    assert_eq!(library.snapshots("acc_a").unwrap(), std::slice::from_ref(&one));
    assert_eq!(library.snapshots("acc_c").unwrap(), []);
    // Nobody's template.
    assert_eq!((library.list().unwrap(), library.get("one").unwrap()), (vec![], None));
    assert!(library.get("acc_a@one").unwrap().is_none());
    assert!(library.hold("acc_a@one").unwrap().is_none());
    assert!(library.snapshot_hold("acc_c", "one").unwrap().is_none());
    assert!(!library.snapshot_remove("acc_c", "one").unwrap());
    // On top of another one, of which then the layers stay.
    let above = NewSnapshot { layers: one.layers.clone(), ..snapshot("acc_a", "two") };
    let two = record(&above, "2").unwrap();
    assert_eq!((two.layers.len(), &two.layers[0]), (2, &one.layers[0]));
    assert_eq!(library.prune().unwrap().layers, 0);
    let held = library.snapshot_hold("acc_a", "one").unwrap().unwrap();
    let error = library.snapshot_remove("acc_a", "one").unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::InUse);
    drop(held);
    assert!(library.snapshot_remove("acc_a", "one").unwrap());
    assert!(library.snapshot_remove("acc_b", "one").unwrap());
    assert_eq!(place.names("layers").len(), 2);
    assert!(library.snapshot_remove("acc_a", "two").unwrap());
    place.assert_empty("all are removed");
    let far = NewSnapshot { layers: vec![two.layers[0].clone(); 128], ..snapshot("a", "far") };
    assert_eq!(far.check().unwrap_err().kind, TemplateErrorKind::TooLarge);
}

fn hidden() {
    let place = Place::new();
    let library = &place.library;
    let mut held = Vec::new();
    for (owner, name) in [("acc_a", ".fork"), ("acc_b", ".fork"), ("acc_a", "seen")] {
        let layer = Tar::default().file("f", "1").done();
        let layer = write(library, &layer, Limits::default()).unwrap();
        held.push(library.snapshot_record(&snapshot(owner, name), layer).unwrap().unwrap());
    }
    assert_eq!(library.snapshots("acc_a").unwrap().len(), 1);
    assert_eq!(library.snapshot_sweep(None).unwrap(), 0, "from its first moment it is held");
    drop((held.remove(2), held.remove(0)));
    assert_eq!(library.snapshot_sweep(Some("acc_a")).unwrap(), 1);
    assert_eq!(library.snapshot_sweep(None).unwrap(), 0);
    drop(held);
    assert_eq!(library.snapshot_sweep(None).unwrap(), 1);
    assert!(library.snapshot_remove("acc_a", "seen").unwrap());
    place.assert_empty("swept");
}
