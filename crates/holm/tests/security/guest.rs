//! A guest that lies: the socket of a sandbox is taken over by a server that answers wrongly. The
//! host bounds what it believes, takes and waits for.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::*;

as_root!(lying_guest_harms_nobody);

/// Every socket in the runtime directory.
/// Sockets of guests that somebody is connected to, which no blank's is.
fn sockets(home: &Home) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/net/unix").expect("the host's sockets");
    // Number, references, protocol, flags, type, state (03: connected), inode, path.
    let connected = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (*fields.get(5)? == "03").then(|| fields.get(7).map(PathBuf::from))?
    });
    connected.filter(|path| path.starts_with(home.runtime())).collect()
}

fn answer(mut to: UnixStream, how: usize) {
    let mut request = [0; 4096];
    if to.read(&mut request).is_err() {
        return;
    }
    let http = |extra: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{extra}\r\n{body}")
            .into_bytes()
    };
    let sized = |body: &str| http(&format!("content-length: {}\r\n", body.len()), body);
    let first = match how {
        0 => b"\0\xff nonsense\r\n\r\n".to_vec(),
        1 => sized("{"),
        2 => {
            sized("{\"exitCode\":99999999999999999999,\"stdout\":{\"head\":\"@@@\",\"total\":-1}}")
        }
        3 => sized("{\"entries\":7,\"exitCode\":{},\"pid\":\"x\"}"),
        4 => http("content-length: 99999999999999\r\n", "{"),
        5 => b"HTTP/1.1 200 OK\r\n".to_vec(),
        6 => http("transfer-encoding: chunked\r\n", ""),
        7 => b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
            .to_vec(),
        _ => Vec::new(),
    };
    if to.write_all(&first).is_err() {
        return;
    }
    // Endless headers, endless chunks; until the other side has had enough.
    let more: Vec<u8> = match how {
        5 => format!("x-{}: y\r\n", "h".repeat(4000)).into_bytes(),
        6 => format!("1000\r\n{}\r\n", "x".repeat(4096)).into_bytes(),
        _ => return,
    };
    while to.write_all(&more).is_ok() {}
}

fn lying_guest_harms_nobody(home: &Home) {
    let mcp = home.mcp();
    let honest = mcp.create();
    let before_sockets = sockets(home);
    assert!(!before_sockets.is_empty(), "the honest guest is connected");
    let before = memory_peak(mcp.pid());
    for how in 0..8 {
        let liar = mcp.create();
        let path = sockets(home)
            .into_iter()
            .find(|path| !before_sockets.contains(path))
            .expect("the guest's socket");
        std::fs::remove_file(&path).expect("the honest name goes");
        let listener = UnixListener::bind(&path).expect("the liar listens");
        let stop = Arc::new(AtomicBool::new(false));
        let liar_thread = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::spawn(move || answer(stream, how));
                }
            })
        };
        // Many at once, so that connections which are open already do not carry them all.
        let calls: Vec<_> = (0..12)
            .map(|n| match n % 4 {
                0 => mcp.start_sh(&liar, "sleep 0.2", json!({"timeout_ms": 2_000})),
                1 => mcp.start("read_file", json!({"sandbox_id": liar, "path": "/etc/hostname"})),
                2 => mcp.start("list_files", json!({"sandbox_id": liar})),
                _ => mcp
                    .start("write_file", json!({"sandbox_id": liar, "path": "f", "content": "x"})),
            })
            .collect();
        assert_eq!(mcp.sh(&honest, "echo honest").good(), "honest", "way {how}");
        for id in calls {
            let reply = mcp.finish(id);
            assert!(reply.reply["error"]["code"] != json!(-32603), "way {how}: {}", reply.reply);
        }
        mcp.call("get_sandbox", json!({"sandbox_id": liar})).result();
        stop.store(true, Ordering::Relaxed);
        let woken = UnixStream::connect(&path).expect("the liar can be reached");
        liar_thread.join().expect("the liar ends");
        drop(woken);
        mcp.destroy(&liar);
        assert_eq!(mcp.list(), vec![honest.clone()], "way {how}");
    }
    let grown = memory_peak(mcp.pid()) - before;
    assert!(grown < 600 << 20, "the service grew by {grown}");
    mcp.end(home);
}
