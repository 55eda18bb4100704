//! What is never sent.

use crate::bed::*;
use crate::common::*;

on_beds!(Root, root: without_a_network_nothing_is_sent);
on_beds!(Rootless, rootless: without_a_network_nothing_is_sent);

const TRY_ALL: &str = "
import socket
QUESTION = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4site\\3bed\\4test\\0\\0\\1\\0\\1'
for family, kind, target in (
    (socket.AF_INET, socket.SOCK_STREAM, ('203.0.113.10', 80)),
    (socket.AF_INET6, socket.SOCK_STREAM, ('2001:db8:10::10', 80)),
    (socket.AF_INET, socket.SOCK_DGRAM, ('203.0.113.53', 53)),
    (socket.AF_INET, socket.SOCK_DGRAM, ('203.0.113.10', 123)),
    (socket.AF_INET6, socket.SOCK_DGRAM, ('2001:db8:10::10', 443)),
):
    s = socket.socket(family, kind)
    s.settimeout(100)
    try:
        s.connect(target)
        if target[1] == 53:
            s.send(QUESTION)
            print(s.recv(512)[3] & 15 == 0)
            continue
        s.send(b'x')
        s.recv(1)
        print('reached', target)
    except OSError as e:
        print(type(e).__name__ == 'TimeoutError')
try:
    print(socket.getaddrinfo('site.bed.test', 80))
except OSError:
    print(False)
";

fn without_a_network_nothing_is_sent(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let sandbox = mcp.create_with(json!({"network": "none"}));
    mcp.write(&sandbox, "try.py", TRY_ALL);
    let said = mcp.sh_with(&sandbox, "python3 try.py", json!({"timeout_ms": 200_000}));
    assert_eq!(said.good(), ["False"; 6].join("\n"), "refused at once, everything");
    assert_eq!(bed.sent(), [], "on the cable");
    assert_eq!(bed.internet.dns.asked(), []);
    mcp.end(home);
}
