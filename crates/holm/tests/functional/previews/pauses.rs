//! Previews of sandboxes that are paused.

use super::websocket::Socket;
use super::{Bed, read_until};
use crate::common::{Home, Value, as_root, json};

as_root!(
    a_visit_lets_a_paused_one_go_on_and_what_was_open_is_still_there,
    one_that_only_its_owner_resumes_says_so,
);

fn a_visit_lets_a_paused_one_go_on_and_what_was_open_is_still_there(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::new(&serve);
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    let mut stream = shown.open("GET", "/sse", &[]);
    read_until(&mut stream, "data: 1");
    let mut socket = Socket::open(&shown, &[]);
    for _ in 0..3 {
        assert_eq!(bed.ask("POST", "/pause", &Value::Null).json()["status"], "paused");
        // Behind the pause, and nobody's visit: it is answered when the sandbox goes on.
        socket.send(1, b"while it is paused");
        assert_eq!(bed.ask("GET", "", &Value::Null).json()["status"], "paused");
        assert_eq!(shown.get("/").status, 200);
        assert_eq!(bed.ask("GET", "", &Value::Null).json()["status"], "running");
        let (_, said) = socket.receive();
        assert!(String::from_utf8_lossy(&said).contains("while it is paused"));
    }
    read_until(&mut stream, "data: ");
    bed.destroy();
    serve.end();
}

fn one_that_only_its_owner_resumes_says_so(home: &Home) {
    let serve = home.serve(&[], &[]);
    let bed = Bed::with(&serve, &json!({"auto_resume": false}));
    bed.start(&["8080@127.0.0.1"]);
    let shown = bed.public(8080);
    assert_eq!(shown.get("/").status, 200);
    assert_eq!(bed.ask("POST", "/pause", &Value::Null).json()["status"], "paused");
    let answer = shown.get("/");
    assert!(answer.status == 503 && answer.body.contains("paused"), "{answer:?}");
    assert_eq!(bed.ask("POST", "/resume", &Value::Null).json()["status"], "running");
    assert_eq!(shown.get("/").status, 200);
    bed.destroy();
    serve.end();
}
