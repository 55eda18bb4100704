//! The testbed does what tests of holm rely on, tried with ordinary clients on its host.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use holm_testbed::{Bed, Data, Reply, SITE4, authority_pem};

/// A bed, unless this user cannot have one.
fn bed() -> Option<Bed> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP root mode: this user is not root");
        return None;
    }
    Some(Bed::new().expect("a bed"))
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn curl(bed: &Bed, arguments: &[&str]) -> String {
    let mut command = bed.host.command("curl");
    command.args(["-sS", "--noproxy", "*", "--max-time", "30"]).args(arguments);
    text(&command.output().expect("curl"))
}

fn python(bed: &Bed, code: &str) -> String {
    text(&bed.host.command("python3").args(["-c", code]).output().expect("python3"))
}

/// The authority's certificate in a file.
fn authority(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("holm-testbed-{name}-{}.pem", std::process::id()));
    std::fs::write(&path, authority_pem().expect("a certificate")).expect("written");
    path
}

#[test]
fn every_address_answers_and_is_seen() {
    let Some(bed) = bed() else { return };
    let targets = [
        "203.0.113.10",
        "10.1.2.3",
        "192.168.0.1",
        "172.16.5.5",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "[2001:db8:10::10]",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "site.bed.test",
        "other.bed.test:8080",
    ];
    for target in targets {
        assert_eq!(curl(&bed, &[&format!("http://{target}/")]), "hello 0\n", "{target}");
    }
    let connections = bed.internet.seen.connections();
    assert_eq!(connections.len(), targets.len());
    assert_eq!(connections[4].to, "169.254.169.254:80".parse().expect("an address"));
    assert_eq!(connections[8].to, "[fd00:ec2::254]:80".parse().expect("an address"));
    for connection in &connections {
        assert!(bed.internet.wire.reached(connection.to.ip()), "{connection:?} on the cable");
    }
    assert!(bed.internet.dns.count("site.bed.test") >= 1);
    // Also what no server takes.
    curl(&bed, &["http://192.0.2.9:4444/"]);
    assert!(bed.internet.wire.reached("192.0.2.9".parse().expect("an address")));
    assert_eq!(bed.internet.seen.connections().len(), targets.len());
}

#[test]
fn tls_udp_and_greetings() {
    let Some(bed) = bed() else { return };
    let authority = authority("tls");
    let trusted = ["--cacert", authority.to_str().expect("text")];
    assert_eq!(curl(&bed, &[&trusted[..], &["https://site.bed.test/bytes/5"]].concat()), "xxxxx");
    let seen = bed.internet.seen.requests();
    assert_eq!(seen[0].connection.sni.as_deref(), Some("site.bed.test"));
    assert_eq!(seen[0].header("host"), Some("site.bed.test"));
    assert!(curl(&bed, &["https://site.bed.test/"]).contains("certificate"));
    std::fs::remove_file(authority).expect("it goes");
    let code = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'there', ('203.0.113.10', 123)); print(s.recv(9))\n\
        s = socket.create_connection(('10.9.8.7', 2525)); print(s.recv(99)); s.send(b'and back'); print(s.recv(99))";
    assert_eq!(python(&bed, code), "b'there'\nb'220 greetings\\r\\n'\nb'and back'\n");
    assert_eq!(bed.internet.seen.datagrams().len(), 1);
    let (read, written) = (bed.internet.seen.bytes_read(), bed.internet.seen.bytes_written());
    assert!(read > 100 && written > 100, "{read} {written}");
}

#[test]
fn names_as_a_test_wants_them() {
    let Some(bed) = bed() else { return };
    let dns = &bed.internet.dns;
    dns.on("turn.bed.test", |query| match query.nth {
        0 => SITE4.into(),
        _ => Reply::from(std::net::Ipv4Addr::new(10, 0, 0, 7)),
    });
    dns.name("alias.bed.test", &[Data::Cname("b.bed.test".to_owned()), Data::A(SITE4)]);
    dns.on("*.wild.bed.test", |_| SITE4.into());
    dns.on("many.bed.test", |_| {
        Reply::Records((0..200).map(|n| Data::A([10, 9, 8, n].into())).collect())
    });
    dns.on("late.bed.test", |_| Reply::Late(Duration::from_millis(200), Box::new(SITE4.into())));
    dns.on("broken.bed.test", |_| Reply::Code(2));
    let code = "import socket\nfor n in 'turn turn alias a.wild many late broken none'.split():\n\
        \u{20} try: print(n, len(set(a := [x[4][0] for x in socket.getaddrinfo(n + '.bed.test', 1, socket.AF_INET, socket.SOCK_STREAM)])), a[0])\n\
        \u{20} except OSError as e: print(n, 'failed')";
    let said = python(&bed, code);
    let expected = "turn 1 203.0.113.10\nturn 1 10.0.0.7\nalias 1 203.0.113.10\na.wild 1 203.0.113.10\nmany 200 10.9.8.0\n\
        late 1 203.0.113.10\nbroken failed\nnone failed\n";
    assert_eq!(said, expected);
    assert!(
        dns.asked().iter().any(|query| query.name == "many.bed.test" && query.tcp),
        "too long for UDP"
    );
}

#[test]
fn a_proxy_and_a_repository() {
    let Some(bed) = bed() else { return };
    let mut command = bed.host.command("curl");
    command.args([
        "-sS",
        "--noproxy",
        "",
        "--max-time",
        "30",
        "-p",
        "-x",
        "http://u:p@203.0.113.128:3128",
        "http://203.0.113.20/",
    ]);
    assert_eq!(text(&command.output().expect("curl")), "hello 0\n");
    assert!(bed.internet.proxy.heads()[0].starts_with("CONNECT 203.0.113.20:80 "));
    bed.internet.proxy.refuse(|target| target.contains("113.20"));
    assert!(text(&command.output().expect("curl")).contains("403"));

    let dir = std::env::temp_dir().join(format!("holm-testbed-git-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let script = "git init -q --bare r.git && git init -q w && cd w && echo text >file && git add file && \
        git -c user.name=t -c user.email=t@bed.test commit -qm one && git push -q ../r.git HEAD:refs/heads/main && \
        git -C ../r.git symbolic-ref HEAD refs/heads/main";
    let made = Command::new("sh").args(["-c", script]).current_dir(&dir).output().expect("git");
    assert!(made.status.success(), "{}", text(&made));
    bed.internet.repositories.serve(&dir);
    let clone =
        format!("cd {} && git clone -q http://site.bed.test/r.git c && cat c/file", dir.display());
    let cloned = bed.host.command("sh").args(["-c", &clone]).output().expect("git");
    assert_eq!(text(&cloned), "text\n");
    bed.internet.repositories.serve_files(&dir.join("w"));
    assert!(curl(&bed, &["http://site.bed.test/files/"]).contains("href=\"file\""));
    assert_eq!(curl(&bed, &["http://site.bed.test/files/file"]), "text\n");
    std::fs::remove_dir_all(&dir).expect("it goes");
}

#[test]
fn many_beds_beside_each_other_and_nothing_left() {
    let Some(one) = bed() else { return };
    let other = bed().expect("a second one");
    assert_eq!(curl(&one, &["http://203.0.113.10/"]), "hello 0\n");
    assert_eq!(other.internet.seen.accepted(), 0, "they do not meet");
    let pids =
        [one.host.pid(), one.internet.host.pid(), other.host.pid(), other.internet.host.pid()];
    drop(one);
    let panicked = std::thread::spawn(move || {
        let _kept = other;
        panic!("as a failing test does");
    });
    assert!(panicked.join().is_err());
    let begun = Instant::now();
    for pid in pids {
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "process {pid} is left");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
