//! Large answers that nobody reads: what they take of the service's memory is bounded, whoever asks
//! and whichever way.

use std::net::TcpStream;

use super::Rest;
use crate::common::{Home, as_root, json, memory_peak, receive, until};

as_root!(answers_that_nobody_reads_take_bounded_memory);

/// Connections that ask and do not read, by each way.
const DEAF: usize = 12;
/// In JSON every byte of it takes six.
const FILE: usize = 16 << 20;
/// The budget is a quarter of this. Without one it would be several times as much.
const MOST: u64 = 1 << 30;

fn status(stream: &TcpStream) -> u16 {
    let mut head = [0; 12];
    until("an answer to begin", || {
        (stream.peek(&mut head).expect("it is open") == head.len()).then_some(())
    });
    std::str::from_utf8(&head[9..]).expect("text").parse().expect("a status")
}

fn answers_that_nobody_reads_take_bounded_memory(home: &Home) {
    let serve = home.serve(&[], &[]);
    let sandbox = Rest::new(&serve, &json!({}));
    sandbox.good(&format!("head -c {FILE} /dev/zero | tr '\\0' '\\1' > f"));
    let id = sandbox.path.rsplit('/').next().expect("an id");
    let session = serve.session();
    let before = memory_peak(serve.pid());
    let path = format!("{}/files?path=f", sandbox.path);
    let rest: Vec<_> = (0..DEAF).map(|_| serve.send("GET", &path, &[], "")).collect();
    let read = || serve.start(&session, "read_file", json!({"sandbox_id": id, "path": "f"}));
    let tools: Vec<_> = (0..DEAF).map(|_| read()).collect();
    let statuses: Vec<_> = rest.iter().map(status).collect();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    assert!(tools.iter().all(|stream| status(stream) == 200));
    let grown = memory_peak(serve.pid()) - before;
    assert!(grown < MOST, "{grown} bytes for {} answers", 2 * DEAF);
    // Some wait to be read, and the rest was told so.
    let refused =
        statuses.iter().position(|status| *status == 429).expect("there is no room for all");
    let refused = receive(rest.into_iter().nth(refused).expect("it is there"));
    assert_eq!(refused.json()["error"]["type"], "rate_limited");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    // Those who leave give their room back.
    drop(tools);
    until("room for another one", || {
        (receive(serve.send("GET", &path, &[], "")).status == 200).then_some(())
    });
    serve.end();
}
