//! Trouble in the middle: a kill, a full disk, two at once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use holm_template::import::{Request, import};
use holm_template::{Library, TemplateErrorKind};

use crate::harness::Test;
use crate::image::{GZIP, layout};
use crate::place::{Place, assert_gone};
use crate::tar::{Head, Tar, gzip};

pub const TESTS: &[Test] = &[
    ("a_kill_leaves_only_what_the_next_one_removes", killed),
    ("a_full_disk_is_said_and_given_back", full_disk),
    ("a_disk_keeps_a_reserve", reserve),
    ("two_at_once_share_what_is_the_same", at_once),
];

/// Long to unpack, and short as it is stored.
fn slow(dir: &Path) -> PathBuf {
    use std::io::Write as _;
    let path = dir.join("slow.tar.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    out.write_all(&Tar::default().file("first", "x").open()).unwrap();
    let zeros = vec![0; 1 << 20];
    let head = Head::new(b"zeros", b'0').size(7 << 30);
    out.write_all(&Tar::default().head(head, b"").open()).unwrap();
    for _ in 0..7 << 10 {
        out.write_all(&zeros).unwrap();
    }
    out.write_all(&[0; 1024]).unwrap();
    out.finish().unwrap();
    path
}

pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn killed() {
    let place = Place::new();
    let path = slow(&place.dir);
    for _ in 0..3 {
        let mut child = Command::new("/proc/self/exe")
            .args([
                "import-child",
                place.dir.join("data").to_str().unwrap(),
                path.to_str().unwrap(),
            ])
            .spawn()
            .unwrap();
        until("no draft is begun", || {
            place
                .names("drafts")
                .iter()
                .any(|draft| place.images().join("drafts").join(draft).join("tree/first").exists())
        });
        // A draft of the living is not swept.
        assert_eq!(place.library.sweep().unwrap(), 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_gone();
        assert_eq!(place.library.list().unwrap(), []);
        assert_eq!(place.names("layers"), Vec::<String>::new());
        assert_eq!(place.library.sweep().unwrap(), 1);
        place.assert_empty("swept");
    }
}

/// Imports until it is killed.
pub fn import_child(args: &mut dyn Iterator<Item = String>) -> i32 {
    let library = Library::open(Path::new(&args.next().unwrap())).unwrap();
    let path = args.next().unwrap();
    import(&library, &Request::new("killed"), Path::new(&path), &()).unwrap();
    0
}

fn full_disk() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP a full disk: only root can mount a small one");
        return;
    }
    let place = Place::new();
    let script = "mount -t tmpfs -o size=16m,mode=0700 small \"$1\" && exec /proc/self/exe";
    let program = std::fs::read_link("/proc/self/exe").unwrap();
    let script = script.replace("/proc/self/exe", "\"$2\" full-child \"$1\"");
    let small = place.dir.join("small");
    std::fs::create_dir(&small).unwrap();
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .args([&small, &program])
        .status();
    assert!(status.unwrap().success());
}

/// On a small disk.
pub fn full_child(args: &mut dyn Iterator<Item = String>) -> i32 {
    let dir = PathBuf::from(args.next().unwrap());
    let library = Library::open(&dir.join("data")).unwrap();
    let free = || {
        let facts = rustix::fs::statvfs(&dir).unwrap();
        (facts.f_bfree, facts.f_ffree)
    };
    let before = free();
    let ones = vec![1; 32 << 20];
    let tar = Tar::default().head(Head::new(b"ones", b'0').size(32 << 20), &ones).done();
    let path = std::env::temp_dir().join(format!("holm-template-full-{}", std::process::id()));
    std::fs::write(&path, gzip(&tar)).unwrap();
    let mut request = Request::new("full");
    request.limits.reserve_bytes = 0;
    for _ in 0..2 {
        let error = import(&library, &request, &path, &()).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::DiskFull, "{error:?}");
        assert!(error.message.contains("full"), "{error}");
        assert_eq!(free(), before, "space is given back");
        let error = crate::written::write(&library, &tar, request.limits).unwrap_err();
        assert_eq!(error.kind, TemplateErrorKind::DiskFull, "{error:?}");
        assert_eq!(free(), before, "space is given back");
    }
    assert_eq!(library.list().unwrap(), []);
    std::fs::remove_file(&path).unwrap();
    0
}

fn reserve() {
    let place = Place::new();
    let path = place.dir.join("small.tar.gz");
    std::fs::write(&path, gzip(&Tar::default().file("f", "x").done())).unwrap();
    let mut request = Request::new("reserve");
    request.limits.reserve_bytes = u64::MAX;
    let error = import(&place.library, &request, &path, &()).unwrap_err();
    assert_eq!(error.kind, TemplateErrorKind::DiskFull);
    place.assert_empty("no room");
}

fn at_once() {
    let place = Place::new();
    let same = Tar::default().file("same", &"x".repeat(1 << 20)).done();
    let layout = layout(place.dir.join("layout"), &[(same, GZIP)]);
    let templates: Vec<_> = std::thread::scope(|scope| {
        let one = |n: usize| {
            let (place, layout) = (&place, &layout);
            scope.spawn(move || place.import(&format!("n{n}"), &layout.dir).unwrap())
        };
        let all: Vec<_> = (0..4).map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(templates.len(), 4);
    assert_eq!(place.names("layers").len(), 1);
    assert_eq!(place.names("drafts"), Vec::<String>::new());
    // And two of one name: one has it.
    let again = Tar::default().file("again", "x").done();
    let again = crate::image::layout(place.dir.join("again"), &[(again, GZIP)]);
    let results: Vec<_> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| place.import("one", &again.dir));
        let all = [one(), one()];
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let kind = results.iter().find_map(|result| result.as_ref().err()).unwrap().kind;
    assert_eq!(kind, TemplateErrorKind::Exists);
}
