//! Bad input to the server: refused, bounded, and nothing is lost for others.

use std::io::Write as _;
use std::os::unix::net::UnixStream;

use crate::harness::{request, text, with_guest};

#[test]
fn broken_requests_get_clear_answers() {
    with_guest(async |guest| {
        let json = "Content-Type: application/json\r\n";
        let stream = "Content-Type: application/connect+json\r\n";
        for (method, target, headers, body, want) in [
            ("POST", "/process.Process/List", json, &b"not json"[..], 400),
            ("POST", "/process.Process/List", json, b"[1]", 400),
            ("POST", "/process.Process/List", "Content-Type: text/plain\r\n", b"{}", 400),
            (
                "POST",
                "/process.Process/List",
                "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
                b"{}",
                501,
            ),
            ("GET", "/process.Process/List", json, b"", 501),
            ("POST", "/process.Process/Nope", json, b"{}", 501),
            ("POST", "/holm.guest.v1.Guest/Run", json, b"{\"argv\":7}", 400),
            ("GET", "/nope", "", b"", 404),
            (
                "POST",
                "/holm.guest.v1.Guest/Probe",
                "Content-Type: application/json\r\nAuthorization: Bearer x\r\n",
                b"{}",
                401,
            ),
            ("GET", "/holm/v1/file?path=x&user=a:b", "", b"", 401),
            ("GET", "/holm/v1/file?path=x&offset=-1", "", b"", 400),
            ("PUT", "/holm/v1/file?path=x&mode=99", "", b"", 400),
        ] {
            let (status, answer) = guest.http(method, target, headers, body);
            assert_eq!(status, want, "{method} {target}: {answer}");
        }
        for body in [
            &b""[..],
            b"\0\0",
            b"\0\0\0\0\x09{}",
            b"\0\xff\xff\xff\xff{}",
            b"\x01\0\0\0\x02{}",
            b"\x02\0\0\0\x02{}",
        ] {
            let (status, answer) = guest.http("POST", "/process.Process/Start", stream, body);
            assert!(status == 200 && answer.contains("invalid_argument"), "{body:?}: {answer}");
        }
        let answer = guest.raw(b"\xff\xfe\0 not http\r\n\r\n");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
        let endless = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000));
        let answer = guest.raw(endless.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert_eq!(text(&guest.sh("echo alive").await.stdout), "alive\n");
    });
}

#[test]
fn a_body_over_the_limit_is_refused() {
    with_guest(async |guest| {
        let head = "POST /holm.guest.v1.Guest/Run HTTP/1.1\r\nHost: g\r\n\
            Content-Type: application/json\r\nContent-Length: 99999999999\r\nConnection: close\r\n\r\n";
        let answer = guest.raw(head.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("longer than"), "{answer}");
    });
}

#[test]
fn slow_callers_do_not_hold_up_others() {
    with_guest(async |guest| {
        let slow: Vec<_> = (0..100)
            .map(|_| {
                let mut stream = UnixStream::connect(guest.socket()).unwrap();
                stream.write_all(b"POST /holm.guest.v1.Guest/Run HT").unwrap();
                stream
            })
            .collect();
        for _ in 0..20 {
            assert_eq!(text(&guest.run(request(&["echo", "hi"])).await.stdout), "hi\n");
        }
        drop(slow);
    });
}

#[test]
fn many_calls_run_side_by_side() {
    with_guest(async |guest| {
        let calls: Vec<_> = (0..40)
            .map(|number| {
                let client = guest.client.clone();
                tokio::spawn(async move {
                    let result = client
                        .run(&request(&["sh", "-c", &format!("sleep 0.1; echo {number}")]))
                        .await;
                    (number, text(&result.unwrap().stdout))
                })
            })
            .collect();
        for call in calls {
            let (number, said) = call.await.unwrap();
            assert_eq!(said, format!("{number}\n"));
        }
    });
}
