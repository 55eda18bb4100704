//! WebSockets through previews, byte by byte as RFC 6455 has them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Bed, Shown, read_until};
use crate::common::{GUARD, Home, as_root, json, long};

as_root!(
    case_39_websockets_pass_as_they_are,
    case_39_one_that_idles_stays_open,
    case_39_who_may_not_look_gets_a_plain_401,
    case_43_websockets_go_over_http_2_too,
);

/// A visitor's WebSocket.
pub(super) struct Socket(TcpStream);

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl Socket {
    /// Opens one and reads the first message of the program, which comes with its answer.
    pub fn open(shown: &Shown, headers: &[(&str, &str)]) -> Self {
        let mut all = vec![
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        all.extend(headers);
        let mut stream = shown.open("GET", "/ws", &all);
        let head = read_until(&mut stream, "\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        let lower = head.to_lowercase();
        assert!(lower.contains("upgrade: websocket") && lower.contains("connection: upgrade"));
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "as RFC 6455 has it: {head}");
        let mut socket = Self(stream);
        assert_eq!(socket.receive(), (0x80 | TEXT, b"first".to_vec()));
        socket
    }

    pub fn send(&mut self, kind: u8, data: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | kind];
        match data.len() {
            short @ 0..126 => frame.push(0x80 | u8::try_from(short).expect("short")),
            middle @ 126..65536 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(middle).expect("fits").to_be_bytes());
            }
            long => {
                frame.push(0x80 | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(data.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).expect("it reads");
    }

    pub fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).expect("a frame");
        assert_eq!(head[1] & 0x80, 0, "a server masks nothing");
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).expect("a length");
                u64::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length).expect("a length");
                u64::from_be_bytes(length)
            }
            short => short.into(),
        };
        let mut data = vec![0; usize::try_from(length).expect("it fits")];
        self.0.read_exact(&mut data).expect("a whole frame");
        (head[0], data)
    }

    /// What comes until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = self.0.read_to_end(&mut rest);
        rest
    }
}

fn case_39_websockets_pass_as_they_are(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let mut socket = Socket::open(&shown, &[("x-holm-preview-token", shown.token())]);
    socket.send(TEXT, "ünï".as_bytes());
    assert_eq!(socket.receive(), (0x80 | TEXT, "ünï".as_bytes().to_vec()));
    socket.send(BINARY, &[0, 255, 10, 13]);
    assert_eq!(socket.receive(), (0x80 | BINARY, vec![0, 255, 10, 13]));
    let large: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_le_bytes()[1]).collect();
    let mut sender = Socket(socket.0.try_clone().expect("a socket"));
    std::thread::scope(|scope| {
        let large = &large;
        scope.spawn(move || sender.send(BINARY, large));
        assert!(socket.receive() == (0x80 | BINARY, large.clone()), "a megabyte comes back whole");
    });
    socket.send(PING, b"p");
    assert_eq!(socket.receive(), (0x80 | PONG, b"p".to_vec()));
    socket.send(PONG, b"q");
    assert_eq!(socket.receive(), (0x80 | TEXT, b"pong q".to_vec()));
    socket.send(CLOSE, &[0x0f, 0xa1]);
    assert_eq!(socket.receive(), (0x80 | CLOSE, vec![0x0f, 0xa1]), "4001");
    assert_eq!(socket.rest(), b"");
    serve.end();
}

/// Longer than connections to programs are kept (4 seconds); in the long form longer than anything
/// else may be silent (75 seconds), as the case has it.
fn case_39_one_that_idles_stays_open(home: &Home) {
    let silence = if long() { 300 } else { 6 };
    let serve = home.serve(&[], &[]);
    let bed = Bed::with(&serve, &json!({"timeout_minutes": 15}));
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let mut socket = Socket::open(&shown, &[]);
    socket.send(TEXT, b"before");
    assert_eq!(socket.receive(), (0x80 | TEXT, b"before".to_vec()));
    // That nothing comes is what is waited for: an end would come.
    socket.0.set_read_timeout(Some(Duration::from_secs(silence))).expect("a time");
    let quiet = socket.0.read(&mut [0]).expect_err("neither a byte nor an end");
    assert!(matches!(quiet.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{quiet}");
    socket.0.set_read_timeout(Some(GUARD)).expect("a time");
    socket.send(TEXT, b"after");
    assert_eq!(socket.receive(), (0x80 | TEXT, b"after".to_vec()));
    serve.end();
}

fn case_39_who_may_not_look_gets_a_plain_401(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.expose(&json!({"port": 8080}));
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    let mut stream = shown.open("GET", "/ws", &upgrade);
    let head = read_until(&mut stream, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    assert!(!head.to_lowercase().contains("location"), "{head}");
    serve.end();
}

fn case_43_websockets_go_over_http_2_too(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = tokio::net::TcpStream::connect(shown.address).await.expect("it listens");
        let builder = http2::Builder::new(TokioExecutor::new());
        let made = builder.handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.expect("HTTP/2");
        tokio::spawn(connection);
        // After the first answer the client knows what the server offers.
        let plain = Request::get(format!("http://{}/x", shown.host)).body(String::new());
        let answer = sender.send_request(plain.expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let open = |to: String| {
            let request = Request::connect(to).header("sec-websocket-version", "13");
            let mut request = request.body(String::new()).expect("a request");
            let protocol = hyper::ext::Protocol::from_static("websocket");
            request.extensions_mut().insert(protocol);
            request
        };
        let wanted = open(format!("http://{}/ws", shown.host));
        let answer = sender.send_request(wanted).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{answer:?}");
        let upgraded = hyper::upgrade::on(answer).await.expect("a WebSocket");
        let mut socket = TokioIo::new(upgraded);
        let mut first = [0; 7];
        socket.read_exact(&mut first).await.expect("a frame");
        assert_eq!(&first, b"\x81\x05first");
        socket.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await.expect("it reads");
        let mut echo = [0; 4];
        socket.read_exact(&mut echo).await.expect("a frame");
        assert_eq!(&echo, b"\x81\x02hi");
        // Only to previews.
        let foreign = open(format!("http://localhost:{}/mcp", shown.address.port()));
        let answer = sender.send_request(foreign).await.expect("an answer");
        assert!(answer.status().is_client_error(), "{answer:?}");
    });
    serve.end();
}
