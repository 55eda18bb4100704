//! Lists of trees, tar, and the tunnel.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;

use holm_wire::guest::{ListTreeRequest, TreeEntry};

use crate::harness::{Guest, HANG, with_guest};

async fn pages(guest: &Guest, path: &str, recursive: bool, limit: u32) -> Vec<TreeEntry> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let request =
            ListTreeRequest { path: path.into(), recursive, limit, after, ..Default::default() };
        let page = guest.client.list_tree(&request).await.unwrap();
        assert!(page.entries.len() <= limit as usize);
        all.extend(page.entries);
        match page.next {
            Some(next) => after = next,
            None => return all,
        }
    }
}

#[test]
fn case_34_large_directories_come_in_pages() {
    with_guest(async |guest| {
        let made = guest.sh("mkdir big; cd big; seq 1 30000 | xargs touch").await;
        assert_eq!(made.exit_code, 0);
        let mut want: Vec<String> =
            (1..=30000).map(|n| format!("{}/{n}", guest.path("big"))).collect();
        want.sort();
        for limit in [999, 10_000] {
            let got: Vec<_> =
                pages(guest, "big", false, limit).await.into_iter().map(|e| e.path).collect();
            assert!(got == want, "pages of {limit} differ");
        }
    });
}

#[test]
fn trees_are_listed_in_order_with_any_page_size() {
    with_guest(async |guest| {
        guest.sh("mkdir -p t/a/b t/a.b t/z; echo hi > t/a/b/f; touch t/a/g t/a.b/h 't/a b' t/ü; mkfifo t/p").await;
        symlink("/etc", guest.work.join("t/link")).unwrap();
        let root = guest.path("t");
        let all = pages(guest, "t", true, 100).await;
        let names: Vec<_> =
            all.iter().map(|entry| entry.path.strip_prefix(&root).unwrap()).collect();
        assert_eq!(
            names,
            ["/a", "/a/b", "/a/b/f", "/a/g", "/a b", "/a.b", "/a.b/h", "/link", "/p", "/z", "/ü"]
        );
        for limit in 1..12 {
            assert_eq!(pages(guest, "t", true, limit).await, all, "pages of {limit}");
        }
        let find = |name: &str| all.iter().find(|entry| entry.path.ends_with(name)).unwrap();
        assert_eq!((find("/f").r#type.as_str(), find("/f").size), ("file", 3));
        assert_eq!(
            (find("/link").r#type.as_str(), find("/link").target.as_deref()),
            ("symlink", Some("/etc"))
        );
        assert_eq!(
            (find("/z").r#type.as_str(), find("/p").r#type.as_str()),
            ("directory", "other")
        );
        let broken =
            ListTreeRequest { path: "t".into(), after: "a//b".into(), ..Default::default() };
        assert!(guest.client.list_tree(&broken).await.is_err());
        let file = ListTreeRequest { path: "t/a/g".into(), ..Default::default() };
        assert!(
            guest
                .client
                .list_tree(&file)
                .await
                .unwrap_err()
                .to_string()
                .contains("not a directory")
        );
    });
}

fn tar(guest: &Guest, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = UnixStream::connect(guest.socket()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let head = format!(
        "{method} /holm/v1/tar?path={path}&user= HTTP/1.0\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    (status, answer.split_off(end))
}

#[test]
fn trees_travel_as_tar() {
    with_guest(async |guest| {
        let long = "l".repeat(150);
        guest.sh(&format!("mkdir -p one/{long}/x; head -c 700001 /dev/urandom > one/r; \
            echo long > one/{long}/x/f; ln -s r one/s; chmod 750 one/r; : > one/empty; mkdir one/void")).await;
        let (status, archive) = tar(guest, "GET", "one", b"");
        assert_eq!(status, 200);
        let (status, _) = tar(guest, "PUT", "two", &archive);
        assert_eq!(status, 200);
        // What the system's own tar makes of it, and what the guest makes of the system's.
        std::fs::write(guest.work.join("a.tar"), &archive).unwrap();
        let script = "mkdir three && tar -C three -xf a.tar && tar -C one --format=gnu -cf gnu.tar . \
            && tar -C one --format=pax -cf pax.tar .";
        assert_eq!(guest.sh(script).await.exit_code, 0);
        for name in ["gnu", "pax"] {
            let bytes = std::fs::read(guest.work.join(format!("{name}.tar"))).unwrap();
            assert_eq!(tar(guest, "PUT", name, &bytes).0, 200, "{name}");
        }
        for name in ["two", "three", "gnu", "pax"] {
            let result = guest
                .sh(&format!("diff -r one {name} && stat -c %a {name}/r && readlink {name}/s"))
                .await;
            assert_eq!(result.stdout.head, b"750\nr\n", "{name}: {result:?}");
        }
    });
}

#[test]
fn archives_cannot_lead_outside() {
    with_guest(async |guest| {
        let script = "mkdir in out; ln -s ../out in/link; echo x > f; \
            tar -P -cf up.tar --transform 's,^,../,' f; tar -P -cf abs.tar $PWD/f; \
            tar -cf link.tar --transform 's,^,link/,' f; head -c 700 up.tar > cut.tar; \
            head -c 2000 /dev/urandom > junk.tar";
        assert_eq!(guest.sh(script).await.exit_code, 0);
        for name in ["up", "abs", "link", "cut", "junk"] {
            let bytes = std::fs::read(guest.work.join(format!("{name}.tar"))).unwrap();
            assert_eq!(tar(guest, "PUT", "in", &bytes).0, 400, "{name}");
        }
        assert_eq!(std::fs::read_dir(guest.work.join("out")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(guest.work.join("in")).unwrap().count(), 1);
    });
}

#[test]
fn a_tunnel_reaches_a_port() {
    with_guest(async |guest| {
        let listener = std::net::TcpListener::bind("[::1]:0")
            .or_else(|_| std::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).unwrap();
            bytes.reverse();
            stream.write_all(&bytes).unwrap();
        });
        let mut stream = UnixStream::connect(guest.socket()).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let head = format!(
            "POST /holm/v1/tunnel?port={port} HTTP/1.1\r\nHost: g\r\n\
            Connection: upgrade\r\nUpgrade: holm-tunnel\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
        stream.write_all(b"abc").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"cba");
        server.join().unwrap();
        let upgrade = "Connection: upgrade\r\nUpgrade: holm-tunnel\r\n";
        assert_eq!(guest.http("POST", "/holm/v1/tunnel?port=0", upgrade, b"").0, 400);
        assert_eq!(guest.http("POST", "/holm/v1/tunnel?port=9", "", b"").0, 400);
    });
}
