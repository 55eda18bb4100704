//! A sandbox and what programs inside find they can reach.

use std::collections::BTreeMap;

use crate::common::*;

/// Says for each of its arguments what came of it. Nothing in it ends by a time that a refusal
/// could be taken for: what is neither reached nor refused within 100 seconds is `silent`.
const PROBE: &str = r#"
import socket, ssl, sys

def judge(work):
    try:
        return 'reached' if work() else 'refused'
    except TimeoutError:
        return 'silent'
    except socket.gaierror:
        return 'noname'
    except OSError:
        return 'refused'

def tcp(host, port):
    s = socket.create_connection((host, int(port)), 100)
    s.sendall(b'GET / HTTP/1.0\r\nHost: ' + host.encode() + b'\r\n\r\n')
    return s.recv(100)

def http(host, port, name, again=None):
    s = socket.create_connection((host, int(port)), 100)
    for n in filter(None, (name, again)):
        s.sendall(b'GET / HTTP/1.1\r\nHost: ' + n.encode() + b'\r\n\r\n')
        got = b''
        while not got.endswith(b'hello 0\n'):
            more = s.recv(1000)
            if not more: return b''
            got += more
    return got

def tls(host, port, sni, name=None):
    s = socket.create_connection((host, int(port)), 100)
    s = ssl._create_unverified_context().wrap_socket(s, server_hostname=None if sni == '-' else sni)
    s.sendall(b'GET / HTTP/1.0\r\nHost: ' + (name or sni).encode() + b'\r\n\r\n')
    return s.recv(100)

def read(host, port):
    return socket.create_connection((host, int(port)), 100).recv(100)

def udp(host, port):
    for family, kind, proto, _, address in socket.getaddrinfo(host, int(port), 0, socket.SOCK_DGRAM):
        s = socket.socket(family, kind, proto)
        s.settimeout(100)
        s.connect(address)
        s.send(b'x')
        return s.recv(100)

def name(host):
    return ' '.join(sorted({a[4][0] for a in socket.getaddrinfo(host, 80, 0, socket.SOCK_STREAM)}))

for probe in sys.argv[1:]:
    what, *rest = probe.split()
    if what == 'name':
        try: print(name(*rest))
        except socket.gaierror: print('noname')
    else:
        print(judge(lambda: globals()[what](*rest)))
"#;

/// Whoever can call tools.
pub trait Caller {
    fn tool(&self, tool: &str, arguments: Value) -> Tool;
}

impl Caller for Mcp {
    fn tool(&self, tool: &str, arguments: Value) -> Tool {
        self.call(tool, arguments)
    }
}

/// A client of a service, with its session.
pub struct Session<'a>(pub &'a Client, pub String);

impl Caller for Session<'_> {
    fn tool(&self, tool: &str, arguments: Value) -> Tool {
        self.0.call(&self.1, tool, arguments)
    }
}

/// A sandbox with the probe in it.
pub struct Inside<'a> {
    caller: &'a dyn Caller,
    pub id: String,
}

impl<'a> Inside<'a> {
    /// A new one with this policy; null for the default.
    pub fn new(caller: &'a dyn Caller, policy: Value) -> Self {
        Self::with(caller, json!({"network": policy}))
    }

    /// A new one with these arguments.
    pub fn with(caller: &'a dyn Caller, mut arguments: Value) -> Self {
        if arguments["network"].is_null() {
            arguments.as_object_mut().expect("an object").remove("network");
        }
        let made = caller.tool("create_sandbox", arguments);
        let id = made.ok()["sandbox_id"].as_str().expect("an id").to_owned();
        let this = Self { caller, id };
        this.write("probe.py", PROBE);
        this
    }

    pub fn write(&self, path: &str, text: &str) {
        let file = json!({"sandbox_id": self.id, "path": path, "content": text});
        self.caller.tool("write_file", file).ok();
    }

    pub fn read(&self, path: &str) -> String {
        let read = self.caller.tool("read_file", json!({"sandbox_id": self.id, "path": path}));
        read.ok()["content"].as_str().expect("text").to_owned()
    }

    /// A shell command to its end.
    pub fn sh(&self, command: &str) -> Run {
        self.sh_with(command, json!({}))
    }

    pub fn sh_with(&self, command: &str, more: Value) -> Run {
        let mut arguments =
            json!({"sandbox_id": self.id, "command": command, "timeout_ms": 600_000});
        let fields = arguments.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        self.caller.tool("run_command", arguments).run()
    }

    /// A Python program to its end; what it printed.
    pub fn python(&self, code: &str) -> String {
        self.python_as(code, json!({}))
    }

    pub fn python_as(&self, code: &str, more: Value) -> String {
        self.write("/tmp/program.py", code);
        self.sh_with("python3 /tmp/program.py", more).good().to_owned()
    }

    /// What comes of one thing that is tried.
    pub fn probe(&self, what: &str) -> String {
        self.sh(&format!("python3 /workspace/probe.py '{what}'")).good().to_owned()
    }

    /// Tries each, in one process, and compares what came of it.
    pub fn check(&self, expected: &[(&str, &str)]) {
        let all: Vec<_> = expected.iter().map(|(probe, _)| format!("'{probe}'")).collect();
        let run = self.sh(&format!("python3 /workspace/probe.py {}", all.join(" ")));
        let said: Vec<_> =
            expected.iter().map(|(probe, _)| *probe).zip(run.good().lines()).collect();
        assert_eq!(said, expected, "{}", run.stderr);
    }

    /// What the tool says of it.
    pub fn get(&self) -> Value {
        self.caller.tool("get_sandbox", json!({"sandbox_id": self.id})).ok().clone()
    }

    /// A counter of `traffic`.
    pub fn count(&self, name: &str) -> u64 {
        let traffic = self.get()["traffic"].clone();
        traffic[name].as_u64().unwrap_or_else(|| panic!("no {name}: {traffic}"))
    }

    /// What was refused last, newest last.
    pub fn denials(&self) -> Vec<Value> {
        self.get()["network_denied"].as_array().cloned().unwrap_or_default()
    }

    pub fn destroy(self) {
        self.caller.tool("destroy_sandbox", json!({"sandbox_id": self.id})).ok();
    }
}

/// How often each line was said.
pub fn tally(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}
