//! Peers that behave badly, on either side of the gate: what is held stays bounded, and is given back.

use crate::bed::*;
use crate::common::*;
use crate::probe::Inside;

on_beds!(Root, root: half_open_connections, a_slow_reader_and_a_slow_server, resets_from_both_sides,
    ten_thousand_connections, more_connections_than_there_may_be, a_thousand_connections_at_once_take_bounded_memory, who_says_nothing_holds_nothing,
    an_address_that_swallows_everything);

/// Open files of a process.
fn files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count()
}

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let text =
        std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS is there");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// What the gate may keep for the next connections, 32 pipes, and a few that come and go.
const KEPT: usize = 72;

/// Waits until as many files are open as before.
fn files_are_back(pid: u32, before: usize) {
    until("open files to be closed", || (files(pid) <= before + KEPT).then_some(()));
}

fn half_open_connections(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let before = files(mcp.pid());
    // Our half is closed: the other side's answer comes whole all the same. And the other way round.
    let code = "import socket\n\
        s = socket.create_connection(('203.0.113.10', 7), 100)\ns.sendall(b'a' * 300000)\ns.shutdown(socket.SHUT_WR)\n\
        n = 0\nwhile True:\n  d = s.recv(65536)\n  if not d: break\n  n += len(d)\nprint(n)\ns.close()\n\
        s = socket.create_connection(('203.0.113.10', 80), 100)\ns.sendall(b'junk\\r\\n\\r\\n')\n\
        d = b''\nwhile True:\n  m = s.recv(1000)\n  if not m: break\n  d += m\nprint(d[:12])\n\
        try:\n  s.sendall(b'more'); s.close(); print('closed')\nexcept OSError: print('closed')\n";
    assert_eq!(inside.python(code), "300000\nb'HTTP/1.1 400'\nclosed");
    // Clients that vanish without a word: their sandbox's processes are killed.
    let code = "import socket, os, signal\nkeep = [socket.create_connection(('203.0.113.10', 7), 100) for _ in range(200)]\n\
        for s in keep: s.sendall(b'x'); s.recv(1)\nprint('made', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n";
    inside.write("vanish.py", code);
    assert_eq!(inside.sh("python3 vanish.py; true").good(), "made");
    until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    until("the servers to have noticed", || (bed.internet.seen.open() == 0).then_some(()));
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}

fn a_slow_reader_and_a_slow_server(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    let (before, held) = (files(mcp.pid()), resident(mcp.pid()));
    // Twenty that ask for much and read nothing, and twenty that send to who reads nothing.
    let code = "import os, socket, time\nkeep = []\nfor n in range(20):\n\
        \u{20} s = socket.create_connection(('203.0.113.10', 80), 100)\n  s.sendall(b'GET /bytes/2000000000 HTTP/1.0\\r\\n\\r\\n')\n  keep.append(s)\n\
        for n in range(20):\n  s = socket.create_connection(('203.0.113.20', 80), 100)\n\
        \u{20} s.sendall(b'PUT /sip/1000000 HTTP/1.1\\r\\nContent-Length: 2000000000\\r\\n\\r\\n')\n  s.setblocking(False)\n\
        \u{20} sent = 0\n  idle = 0\n  while idle < 20:\n    try: sent += s.send(b'z' * 65536); idle = 0\n    except BlockingIOError: idle += 1; time.sleep(0.01)\n  keep.append(s)\n\
        open('full', 'w').close()\ntime.sleep(3600)\n";
    inside.write("slow.py", code);
    inside.sh("setsid python3 slow.py >log 2>&1 & echo $! >pid; while ! [ -e full ]; do sleep 0.02; grep . log && exit 1; done; true").good();
    assert_eq!(inside.count("connections_open"), 40);
    // The kernel holds what it holds; the service at most a small buffer for each direction.
    let grown = resident(mcp.pid()).saturating_sub(held);
    assert!(grown < 40 << 10, "{grown} KiB for 40 connections that do not move");
    // Others are as quick as ever, and what is slow is not lost.
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    let drip = inside.sh("curl -sS http://203.0.113.10/drip/20/50 | wc -c; curl -sS -T probe.py http://203.0.113.10/sip/20");
    assert_eq!(drip.good(), "20\nsipped");
    inside.sh("kill -9 $(cat pid)").good();
    // Who read nothing is gone. What was sent is still on its way to who reads slowly, as without
    // a gate; it ends with the sandbox at the latest.
    until("those that read nothing to be over", || {
        (inside.count("connections_open") <= 20).then_some(())
    });
    inside.destroy();
    // The slow servers are still asleep, and notice it later.
    until("the others to have noticed", || (bed.internet.seen.open() <= 20).then_some(()));
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}

fn resets_from_both_sides(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    let before = files(mcp.pid());
    // Theirs is seen as one, and not as the end of an answer; ours reaches them.
    let code = "import socket, struct\nfrom collections import Counter\nc = Counter()\nfor n in range(100):\n\
        \u{20} s = socket.create_connection(('203.0.113.10', 80), 100)\n  s.sendall(b'GET /reset HTTP/1.0\\r\\n\\r\\n')\n\
        \u{20} try: c[s.recv(10)] += 1\n  except ConnectionResetError: c['reset'] += 1\n  s.close()\n\
        for n in range(100):\n  s = socket.create_connection(('203.0.113.10', 7), 100)\n  s.sendall(b'x'); s.recv(1)\n\
        \u{20} s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n  s.close()\nprint(dict(c))\n";
    assert_eq!(inside.python(code), "{'reset': 100}");
    until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    until("the servers to have noticed", || (bed.internet.seen.open() == 0).then_some(()));
    assert_eq!(bed.internet.seen.accepted(), 201);
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}

/// In waves, each of which is given back; narrower than the bound of those that are being dialled.
fn ten_thousand_connections(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let wave = |waves: u32, wide: u32| {
        let code = format!(
            "import socket\nfor wave in range({waves}):\n\
             \u{20} all = [socket.create_connection(('203.0.113.10', 7), 100) for _ in range({wide})]\n\
             \u{20} for s in all: s.sendall(b'ping')\n\
             \u{20} for s in all: assert s.recv(4) == b'ping'\n\
             \u{20} for s in all: s.close()\nprint('done')"
        );
        assert_eq!(inside.python(&code), "done");
        until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    };
    let wide = 200;
    wave(5, wide);
    let (before, held) = (files(mcp.pid()), resident(mcp.pid()));
    wave(45, wide);
    assert_eq!(inside.count("connections"), 10_000);
    assert_eq!(bed.internet.seen.accepted(), 10_000);
    files_are_back(mcp.pid(), before);
    let grown = resident(mcp.pid()).saturating_sub(held);
    assert!(grown < 16 << 10, "{grown} KiB more after 9,000 further connections");
    mcp.end(home);
}

/// Beyond the bound one is refused at once, those that are open go on, and there is room again.
fn more_connections_than_there_may_be(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    let before = files(mcp.pid());
    let code = "import os, socket\nkids = []\nfor k in range(4):\n\
        \u{20} r, w = os.pipe(); go, gow = os.pipe()\n  pid = os.fork()\n  if pid == 0:\n\
        \u{20}   os.close(gow)\n    good = []\n    bad = 0\n    for n in range(700):\n\
        \u{20}     try:\n        s = socket.create_connection(('203.0.113.10', 7), 100); s.sendall(b'x'); assert s.recv(1) == b'x'; good.append(s)\n\
        \u{20}     except TimeoutError: os.write(w, b'silent\\n'); os._exit(1)\n      except (OSError, AssertionError): bad += 1\n\
        \u{20}   os.write(w, f'{len(good)} {bad}\\n'.encode()); os.read(go, 1)\n\
        \u{20}   for s in good: s.sendall(b'y'); assert s.recv(1) == b'y'\n    os._exit(0)\n\
        \u{20} os.close(go); kids.append((pid, r, gow))\n\
        said = [os.fdopen(r).readline().split() for _, r, _ in kids]\n\
        print(sum(int(a) for a, b in said), sum(int(b) for a, b in said))\n\
        for _, _, w in kids: os.close(w)\nprint([os.waitpid(p, 0)[1] for p, _, _ in kids])\n";
    let said = inside.python(code);
    let mut lines = said.lines();
    let counts: Vec<u64> =
        lines.next().expect("counts").split(' ').map(|n| n.parse().expect("a number")).collect();
    assert_eq!(counts[0] + counts[1], 2800, "{said}");
    assert!(counts[0] >= 1000 && counts[1] > 0, "there is a bound, and room below it: {said}");
    assert_eq!(lines.next(), Some("[0, 0, 0, 0]"), "those that were open went on");
    assert!(
        inside
            .denials()
            .iter()
            .any(|denial| denial["rule"].as_str().is_some_and(|rule| rule.contains("connections"))),
        "{:?}",
        inside.denials()
    );
    until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    assert!(bed.internet.seen.accepted() >= counts[0]);
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}

/// Most that one open connection takes of the service, in KiB.
const EACH: u64 = 16;

fn a_thousand_connections_at_once_take_bounded_memory(home: &Home, _bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    let held = resident(mcp.pid());
    // Each has moved bytes both ways, more than the buffers of a relay.
    let code = "import socket, sys, time\nall = []\nfor n in range(500):\n\
        \u{20} s = socket.create_connection(('203.0.113.10', 7), 100); all.append(s)\n\
        \u{20} s.sendall(b'x' * 100000)\n  left = 100000\n  while left: left -= len(s.recv(left))\n\
        open('held' + sys.argv[1], 'w').close()\ntime.sleep(3600)\n";
    inside.write("hold.py", code);
    inside
        .sh("for n in 1 2; do setsid python3 hold.py $n >>log 2>&1 & done; \
        while ! [ -e held1 -a -e held2 ]; do sleep 0.05; grep . log && exit 1; done; true")
        .good();
    assert_eq!(inside.count("connections_open"), 1000);
    let grown = resident(mcp.pid()).saturating_sub(held);
    println!("{grown} KiB for 1,000 connections");
    assert!(grown < 1000 * EACH, "{grown} KiB for 1,000 connections");
    mcp.end(home);
}

/// Where only a client's word can permit a connection, silence is waited for only so long.
fn who_says_nothing_holds_nothing(home: &Home, bed: &Bed) {
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!({"mode": "allow", "allow": ["site.bed.test"]}));
    let before = files(mcp.pid());
    // Nothing at all, half a greeting of TLS, half a head, and one that never ends.
    let code = r"
import socket
for start in (b'', b'\x16\x03\x01\x02\x00\x01\x00', b'GET / HT', b'GET / HTTP/1.1\r\nX: ' + b'y' * 200000):
    for to in ('203.0.113.10', '203.0.113.20'):
        try:
            s = socket.create_connection((to, 443), 100)
            s.sendall(start)
            print(s.recv(1))
        except TimeoutError: print('silent')
        except OSError: print('refused')
";
    let said = inside.python(code);
    assert!(
        said.lines().count() == 8 && said.lines().all(|line| line == "refused" || line == "b''"),
        "{said}"
    );
    assert_eq!(bed.internet.seen.accepted(), 0);
    until("all to be over", || (inside.count("connections_open") == 0).then_some(()));
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}

/// The far side never answers: the connect fails by a bound of the gate, not by the client's.
fn an_address_that_swallows_everything(home: &Home, bed: &Bed) {
    bed.internet.host.ip("route add blackhole 203.0.113.66/32 table local\n").expect("a route");
    let mcp = home.mcp();
    let inside = Inside::new(&mcp, json!("open"));
    let before = files(mcp.pid());
    let code = "import socket\nall = []\nfor _ in range(50):\n  s = socket.create_connection(('203.0.113.66', 80), 100); all.append(s)\n\
        said = set()\nfor s in all:\n  try: said.add(s.recv(1))\n  except TimeoutError: said.add('silent')\n  except OSError: said.add('refused')\nprint(said)";
    assert!(["{'refused'}", "{b''}"].contains(&inside.python(code).as_str()));
    inside.check(&[("tcp 203.0.113.10 80", "reached")]);
    files_are_back(mcp.pid(), before);
    mcp.end(home);
}
