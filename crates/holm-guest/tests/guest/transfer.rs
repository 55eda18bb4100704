//! envd's plain HTTP for files: compressed up and down, and several files into one.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::harness::{Guest, with_guest};

const GZIP: &str = "Content-Encoding: gzip\r\n";
const FORM: &str = "Content-Type: multipart/form-data; boundary=b\r\nContent-Encoding: gzip\r\n";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Text that neither repeats in short nor resists compression.
fn text(length: usize) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for number in 0_u64.. {
        if text.len() >= length {
            break;
        }
        writeln!(text, "{number} {}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
    }
    text.truncate(length);
    text
}

fn names(guest: &Guest) -> Vec<String> {
    let list = std::fs::read_dir(&guest.work).unwrap();
    let mut names: Vec<_> =
        list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The most memory that the guest had at once, in KiB.
fn peak(guest: &Guest) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", guest.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn compressed_uploads_are_unpacked() {
    with_guest(async |guest| {
        let bytes = text(3 << 20);
        let mut members = gzip(&bytes[..1000]);
        members.extend(gzip(&bytes[1000..]));
        for packed in [gzip(&bytes), members] {
            let (status, answer) = guest.http("POST", "/files?path=up/f", GZIP, &packed);
            assert_eq!(status, 200, "{answer}");
            assert!(std::fs::read(guest.work.join("up/f")).unwrap() == bytes);
        }
        assert_eq!(guest.http("POST", "/files?path=empty", GZIP, &gzip(b"")).0, 200);
        assert_eq!(std::fs::read(guest.work.join("empty")).unwrap(), b"");
        let mut form = Vec::new();
        for (name, part) in [("m1", &bytes[..]), ("s/m2", b"BBB")] {
            let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=";
            form.extend_from_slice(format!("{head}\"{name}\"\r\n\r\n").as_bytes());
            form.extend_from_slice(part);
            form.extend_from_slice(b"\r\n");
        }
        form.extend_from_slice(b"--b--\r\n");
        let (status, answer) = guest.http("POST", "/files", FORM, &gzip(&form));
        assert_eq!(status, 200, "{answer}");
        assert!(std::fs::read(guest.work.join("m1")).unwrap() == bytes);
        assert_eq!(std::fs::read(guest.work.join("s/m2")).unwrap(), b"BBB");
    });
}

#[test]
fn broken_compressed_uploads_leave_nothing() {
    with_guest(async |guest| {
        let whole = gzip(&text(100_000));
        let mut wrong_sum = whole.clone();
        let at = wrong_sum.len() - 6;
        wrong_sum[at] ^= 1;
        let mut trailing = whole.clone();
        trailing.extend_from_slice(b"more");
        let mut odd = whole.clone();
        let middle = odd.len() / 2;
        odd[middle..middle + 64].fill(0xff);
        let cut = |at: usize| whole[..at].to_vec();
        for (what, body) in [
            ("nothing", Vec::new()),
            ("no gzip", b"plain text".to_vec()),
            ("a cut head", cut(5)),
            ("a cut middle", cut(whole.len() / 2)),
            ("a cut sum", cut(whole.len() - 3)),
            ("a wrong sum", wrong_sum),
            ("something after it", trailing),
            ("a broken middle", odd),
        ] {
            let (status, answer) = guest.http("POST", "/files?path=f", GZIP, &body);
            assert!(status == 400 && answer.contains("gzip"), "{what}: {status} {answer}");
            assert_eq!(names(guest), [""; 0], "{what}");
        }
        for coding in ["br", "deflate", "gzip, gzip", "zstd"] {
            let head = format!("Content-Encoding: {coding}\r\n");
            assert_eq!(guest.http("POST", "/files?path=f", &head, &whole).0, 415, "{coding}");
        }
    });
}

#[test]
fn what_unfolds_without_end_meets_the_disks_limit() {
    with_guest(async |guest| {
        // The file size limit of the guest's own process stands for the disk's.
        let limit = std::process::Command::new("prlimit")
            .args(["--fsize=1000000", "--pid", &guest.pid().to_string()])
            .status();
        assert!(limit.unwrap().success());
        let bomb = gzip(&vec![0; 256 << 20]);
        let (status, answer) = guest.http("POST", "/files?path=f", GZIP, &bomb);
        assert!(status == 413 && answer.contains("too large"), "{status} {answer}");
        // And where nobody stores it: a field that is no file.
        let mut form = b"--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n".to_vec();
        form.resize(form.len() + (256 << 20), b'0');
        let (status, answer) = guest.http("POST", "/files", FORM, &gzip(&form));
        assert_eq!(status, 400, "{answer}");
        // A head that never ends.
        let endless = gzip(&vec![b'a'; 64 << 20]);
        assert_eq!(guest.http("POST", "/files", FORM, &endless).0, 400);
        assert_eq!(names(guest), [""; 0]);
        assert!(peak(guest) < 32 << 10, "{} KiB", peak(guest));
    });
}

#[test]
fn downloads_are_compressed_on_request() {
    with_guest(async |guest| {
        for length in [0, 10, 256 << 10, (256 << 10) + 1, 3 << 20] {
            let bytes = text(length);
            std::fs::write(guest.work.join("f"), &bytes).unwrap();
            let get = |accept: &str| {
                // Version 1.0, so that the body comes in one piece.
                let text =
                    format!("GET /files?path=f HTTP/1.0\r\nAccept-Encoding: {accept}\r\n\r\n");
                let answer = guest.raw_bytes(text.as_bytes());
                let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
                let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
                (head, answer[end + 4..].to_vec())
            };
            let (head, body) = get("gzip, deflate");
            assert!(head.contains("content-encoding: gzip"), "{head}");
            let mut unpacked = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == bytes, "{length} bytes differ");
            assert!(length < 1000 || body.len() < length, "{} of {length}", body.len());
            let (head, body) = get("identity");
            assert!(!head.contains("content-encoding") && body == bytes, "{head}");
        }
        let neither = "Accept-Encoding: identity;q=0, br\r\n";
        assert_eq!(guest.http("GET", "/files?path=f", neither, b"").0, 406);
    });
}

#[test]
fn files_are_joined_and_removed() {
    with_guest(async |guest| {
        let json = "Content-Type: application/json\r\n";
        let large = text(600_000);
        let compose = |body: &str| guest.http("POST", "/files/compose", json, body.as_bytes());
        std::fs::write(guest.work.join("a"), &large).unwrap();
        std::fs::write(guest.work.join("b"), b"-end").unwrap();
        let (status, answer) = compose(r#"{"source_paths":["a","./b"],"destination":"new/c"}"#);
        assert_eq!(status, 200, "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["path"], guest.path("new/c"));
        assert_eq!((&answer["name"], &answer["type"]), (&"c".into(), &"file".into()));
        let joined = std::fs::read(guest.work.join("new/c")).unwrap();
        assert!(joined == [&large[..], b"-end"].concat());
        assert_eq!(names(guest), ["new"]);
        guest.sh("echo 1 > a; ln a hard; ln -s a soft; mkfifo pipe; mkdir dir").await;
        let before = names(guest);
        for (body, want) in [
            (r#"{"source_paths":[],"destination":"x"}"#, 400),
            (r#"{"source_paths":["a"]}"#, 400),
            (r#"{"source_paths":["a","none"],"destination":"x/y"}"#, 404),
            (r#"{"source_paths":["a","pipe"],"destination":"x/y"}"#, 400),
            (r#"{"source_paths":["a","dir"],"destination":"x/y"}"#, 400),
            (r#"{"source_paths":["a"],"destination":"./a"}"#, 400),
            (r#"{"source_paths":["hard"],"destination":"a"}"#, 400),
            (r#"{"source_paths":["a"],"destination":"soft"}"#, 400),
            (r#"{"source_paths":["a"],"destination":"dir"}"#, 400),
            (r#"{"source_paths":["/proc/version"],"destination":"x/y"}"#, 400),
            (r#"{"source_paths":["a"],"destination":"x","username":"nobody-here"}"#, 401),
            ("[]", 400),
        ] {
            let (status, answer) = compose(body);
            assert_eq!(status, want, "{body}: {answer}");
            assert_eq!(names(guest), before, "{body}");
        }
        assert_eq!(std::fs::read(guest.work.join("a")).unwrap(), b"1\n");
    });
}
