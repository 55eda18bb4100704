//! The egress gate beside no gate: a large download and many connects, by the same clients and from
//! the same server.

use std::path::Path;
use std::process::Command;
use std::thread;

use holm_testbed::{Bed, SITE4};

use crate::Result;
use crate::mcp::Mcp;
use crate::service::failed;
use crate::table::Table;
use crate::workspace::Workspace;

/// Bytes of one download.
const LARGE: u64 = 1 << 30;
/// Connects, one after the other.
const CONNECTS: u32 = 3000;
/// Rounds; every way has its turn in each.
const ROUNDS: usize = 3;

/// Connects, asks, reads and closes, again and again; prints how often in a second.
const CONNECT: &str = "import socket, sys, time
to, count = sys.argv[1], int(sys.argv[2])
begun = time.monotonic()
for _ in range(count):
    s = socket.create_connection((to, 80), 30)
    s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')
    assert b'hello' in s.recv(1000)
    s.close()
print(count / (time.monotonic() - begun))
";

/// Adds the rows of the gate.
pub fn measure(holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let bed = Bed::new()?;
    // Everything that this thread starts is on the host of the testbed.
    let network = bed.host.network()?;
    let measured = thread::scope(|scope| {
        scope
            .spawn(|| {
                network.enter()?;
                on_host(&bed, holm, at)
            })
            .join()
    });
    let Measured { download, connect, wide } =
        measured.map_err(|_| "a thread panicked".to_owned())??;
    download.add(table, "1 GiB of HTTP, one connection", "MiB/s");
    connect.add(table, "Connects with a request each, one at a time", "per second");
    wide.add(table, "Connects with a request each, 16 at a time", "per second");
    Ok(())
}

struct Measured {
    download: Ways,
    connect: Ways,
    wide: Ways,
}

/// The rates of one thing by three ways.
#[derive(Default)]
struct Ways {
    /// On the machine of the server itself.
    loopback: Vec<f64>,
    /// From holm's host over the cable, without holm.
    cable: Vec<f64>,
    /// From a sandbox.
    gate: Vec<f64>,
}

impl Ways {
    fn add(&self, table: &mut Table, title: &str, unit: &str) {
        let loopback = table.rate(title, "directly over loopback", unit, &self.loopback, &[]);
        let cable =
            table.rate("", "over the testbed's cable, no gate", unit, &self.cable, &[&loopback]);
        table.rate("", "from a sandbox through the gate", unit, &self.gate, &[&loopback, &cable]);
    }
}

fn on_host(bed: &Bed, holm: &Path, at: &Workspace) -> Result<Measured> {
    let mut server = Mcp::start(holm, at, 20)?;
    let id = server.create()?;
    let site = SITE4.to_string();
    let program = at.root.join("connect.py");
    std::fs::write(&program, CONNECT).map_err(failed("connect.py"))?;
    let program = program.to_string_lossy();
    server.write(&id, "connect.py", CONNECT)?;
    let mut measured =
        Measured { download: Ways::default(), connect: Ways::default(), wide: Ways::default() };
    let download = |to: &str| {
        format!(
            "curl -sS -o /dev/null -w '%{{size_download}} %{{speed_download}}' http://{to}/bytes/{LARGE}"
        )
    };
    let connect = |program: &str, to: &str| format!("python3 {program} {to} {CONNECTS}");
    let wide = |to: &str| format!("wrk -t1 -c16 -d3s -H 'Connection: close' http://{to}/");
    for _ in 0..ROUNDS {
        let ways = &mut measured.download;
        ways.loopback
            .push(speed(&output(&bed.internet.host.command("sh"), &download("127.0.0.1"))?)?);
        ways.cable.push(speed(&output(&Command::new("sh"), &download(&site))?)?);
        ways.gate.push(speed(&server.run(&id, &download(&site))?)?);
        let ways = &mut measured.connect;
        ways.loopback.push(number(&output(
            &bed.internet.host.command("sh"),
            &connect(&program, "127.0.0.1"),
        )?)?);
        ways.cable.push(number(&output(&Command::new("sh"), &connect(&program, &site))?)?);
        ways.gate.push(number(&server.run(&id, &connect("connect.py", &site))?)?);
        let ways = &mut measured.wide;
        ways.loopback.push(
            crate::wrk::parse(&output(&bed.internet.host.command("sh"), &wide("127.0.0.1"))?)?
                .per_second,
        );
        ways.cable.push(crate::wrk::parse(&output(&Command::new("sh"), &wide(&site))?)?.per_second);
        ways.gate.push(crate::wrk::parse(&server.run(&id, &wide(&site))?)?.per_second);
    }
    server.end()?;
    Ok(measured)
}

fn output(shell: &Command, script: &str) -> Result<String> {
    let mut command = Command::new(shell.get_program());
    command.args(shell.get_args()).args(["-c", script]);
    let done = command.output().map_err(failed(script))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{script}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr)))
}

/// MiB a second, of all bytes.
fn speed(text: &str) -> Result<f64> {
    let (size, speed) = text.trim().split_once(' ').ok_or(format!("curl: {text}"))?;
    if size.parse() != Ok(LARGE) {
        return Err(format!("a download of {size} bytes"));
    }
    Ok(number(speed)? / f64::from(1 << 20))
}

fn number(text: &str) -> Result<f64> {
    text.trim().parse().map_err(|error| format!("{error}: {text}"))
}
