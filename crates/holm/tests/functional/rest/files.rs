//! Files as JSON and raw.

use std::io::{Read as _, Write as _};

use super::{LARGE, Rest, error_is, rss};
use crate::common::{Home, Value, as_root, as_rootless, json, receive, until};

as_root!(
    case_25_links_stay_inside,
    case_27_paths_are_confined_or_refused,
    case_31_bytes_come_back_as_they_were,
    case_33_uploads_belong_to_the_sandbox_user,
    large_files_go_through_without_growing_memory,
    an_upload_that_breaks_off_leaves_the_old_file,
    a_full_disk_is_said_while_uploading,
    files_live_from_write_to_delete,
);
as_rootless!(case_31_bytes_come_back_as_they_were, files_live_from_write_to_delete,);

fn case_25_links_stay_inside(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("ln -s /etc/hostname a; ln -s / d; ln -s ../../../.. u");
    let own = sandbox.good("cat /etc/hostname");
    for path in ["a", "d/etc/hostname", "u/etc/hostname"] {
        let json = sandbox.ask("GET", &format!("/files?path={path}"), &Value::Null);
        assert_eq!(json.json()["content"], json!(own), "{path}");
        assert_eq!(receive(sandbox.download(&format!("path={path}"))).body, own, "{path}");
    }
    // A link is removed, not what it leads to.
    assert_eq!(sandbox.ask("DELETE", "/files?path=d", &Value::Null).status, 200);
    sandbox.good("test -d /etc && ! test -e d");
    serve.end();
}

fn case_27_paths_are_confined_or_refused(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let long = "x".repeat(5000);
    for (path, type_of) in [
        ("", "invalid_request"),
        ("a%00b", "invalid_request"),
        (long.as_str(), "invalid_request"),
        (".", "file_invalid"),
        ("../../x", "file_not_found"),
        ("a/../../../b", "file_not_found"),
        ("..%252f..%252fx", "file_not_found"),
        ("a%5Cb", "file_not_found"),
    ] {
        for below in ["/files", "/files/raw"] {
            let answer = sandbox.ask("GET", &format!("{below}?path={path}"), &Value::Null);
            assert_eq!(answer.json()["error"]["type"], json!(type_of), "{below} {path}");
        }
    }
    serve.end();
}

fn case_31_bytes_come_back_as_they_were(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)))' > all");
    let read = sandbox.ask("GET", "/files?path=all&encoding=base64", &Value::Null).json();
    let content = read["content"].as_str().expect("text").to_owned();
    let write = json!({"path": "again", "content": content, "encoding": "base64"});
    assert_eq!(sandbox.ask("PUT", "/files", &write).json()["bytes_written"], 256);
    sandbox.good("cmp all again");
    error_is(&sandbox.ask("GET", "/files?path=all", &Value::Null), 409, "file_invalid");
    let bad = json!({"path": "again", "content": "***", "encoding": "base64"});
    error_is(&sandbox.ask("PUT", "/files", &bad), 400, "invalid_request");
    serve.end();
}

fn case_33_uploads_belong_to_the_sandbox_user(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    let script = b"#!/bin/sh\necho ran\n";
    let mut stream = sandbox.upload("path=bin/s.sh&mode=0755", script.len());
    stream.write_all(script).expect("it reads");
    assert_eq!(receive(stream).json()["bytes_written"], json!(script.len()));
    assert_eq!(sandbox.good("bin/s.sh; stat -c '%U %a' bin/s.sh"), "ran\nsandbox 755\n");
    sandbox.good("echo 'echo more' >> bin/s.sh; chmod 700 bin/s.sh; rm bin/s.sh");
    let wrong = receive(sandbox.upload("path=x&mode=9", 0));
    error_is(&wrong, 400, "invalid_request");
    serve.end();
}

fn large_files_go_through_without_growing_memory(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    // What the first of everything takes.
    let mut stream = sandbox.upload("path=small", 4 << 20);
    stream.write_all(&vec![7; 4 << 20]).expect("it reads");
    assert_eq!(receive(stream).status, 200);
    let mut sink = Vec::new();
    sandbox.download("path=small").read_to_end(&mut sink).expect("an end");
    let before = rss(&serve);
    let part: Vec<u8> =
        (0..1 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let mut stream = sandbox.upload("path=large", LARGE);
    for _ in 0..LARGE >> 20 {
        stream.write_all(&part).expect("it reads");
    }
    assert_eq!(receive(stream).json()["bytes_written"], json!(LARGE));
    let mut stream = sandbox.download("path=large");
    let mut head = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    let (mut at, mut differs) = (0, false);
    loop {
        let read = stream.read(&mut buffer).expect("a stream");
        if read == 0 {
            break;
        }
        let mut bytes = &buffer[..read];
        if at == 0 && head.is_empty() {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            head = bytes[..end].to_vec();
            bytes = &bytes[end..];
        }
        differs |= bytes.iter().enumerate().any(|(i, byte)| *byte != part[(at + i) % part.len()]);
        at += bytes.len();
    }
    assert_eq!((at, differs), (LARGE, false));
    let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
    assert!(head.contains(&format!("content-length: {LARGE}\r\n")), "{head}");
    assert!(head.contains(&format!("x-file-size: {LARGE}\r\n")), "{head}");
    // A client that does not read, and one that does not write on, hold nothing either.
    let slow = sandbox.download("path=large");
    let mut stuck = sandbox.upload("path=stuck", LARGE);
    stuck.write_all(&part).expect("it reads");
    sandbox.good("true");
    let after = rss(&serve);
    assert!(after < before + (16 << 10), "{before} KiB grew to {after} KiB");
    drop((slow, stuck));
    serve.end();
}

fn an_upload_that_breaks_off_leaves_the_old_file(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good("echo old > f");
    let mut stream = sandbox.upload("path=f", 8 << 20);
    stream.write_all(&vec![1; 4 << 20]).expect("it reads");
    until("the upload to have begun", || {
        (sandbox.good("ls -A | wc -l").trim() == "2").then_some(())
    });
    drop(stream);
    until("what it had written to be gone", || {
        (sandbox.good("ls -A | wc -l").trim() == "1").then_some(())
    });
    assert_eq!(sandbox.good("cat f"), "old\n");
    serve.end();
}

fn a_full_disk_is_said_while_uploading(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    // All but a few MiB.
    sandbox.exec("dd if=/dev/zero of=fill bs=1M; truncate -s -4M fill");
    let mut stream = sandbox.upload("path=f", 64 << 20);
    let part = vec![1; 1 << 20];
    for _ in 0..64 {
        stream.write_all(&part).expect("it reads on, to be able to answer");
    }
    error_is(&receive(stream), 507, "disk_full");
    assert_eq!(sandbox.good("ls -A"), "fill\n");
    serve.end();
}

fn files_live_from_write_to_delete(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    for n in 0..5 {
        let write =
            json!({"path": format!("d/{n}.txt"), "content": "é\"$(id)`\r\n", "mode": "0600"});
        let written = sandbox.ask("PUT", "/files", &write);
        assert_eq!(written.json()["bytes_written"], 11, "{written:?}");
    }
    let read = sandbox.ask("GET", "/files?path=d/0.txt", &Value::Null).json();
    assert_eq!((&read["content"], &read["mode"]), (&json!("é\"$(id)`\r\n"), &json!("0600")));
    let part = sandbox.ask("GET", "/files?path=d/0.txt&offset=2&limit=4", &Value::Null).json();
    let expected = (&json!("\"$(i"), &json!(6), &json!(true));
    assert_eq!((&part["content"], &part["next_offset"], &part["truncated"]), expected);
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let below = format!("/files/list?path=d&limit=2{cursor}");
        let page = sandbox.ask("GET", &below, &Value::Null).json();
        let files = page["files"].as_array().expect("files");
        assert!(files.len() <= 2);
        names.extend(files.iter().map(|file| file["name"].as_str().expect("a name").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["0.txt", "1.txt", "2.txt", "3.txt", "4.txt"]);
    assert_eq!(sandbox.ask("DELETE", "/files?path=d/0.txt", &Value::Null).status, 200);
    error_is(&sandbox.ask("DELETE", "/files?path=d/0.txt", &Value::Null), 404, "file_not_found");
    error_is(&sandbox.ask("DELETE", "/files?path=d", &Value::Null), 409, "file_invalid");
    assert_eq!(sandbox.ask("DELETE", "/files?path=d&recursive=true", &Value::Null).status, 200);
    assert_eq!(sandbox.good("ls -A"), "");
    serve.end();
}
