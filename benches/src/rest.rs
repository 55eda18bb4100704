//! REST of a running `holm serve`, beside the engine without a face and beside `cp`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holm_engine::{CreateSandbox, Engine, EngineSettings, RunCommand, SandboxId};
use holm_runtime::{LinuxDriver, LinuxOptions};
use serde_json::{Value, json};

use crate::table::{Row, Table};
use crate::workspace::Workspace;
use crate::{Options, Result};

/// Size of the file that goes up and down.
const LARGE: usize = 100 << 20;

/// A running service, and one kept connection to it.
struct Service {
    child: Child,
    key: String,
    stream: BufReader<TcpStream>,
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

impl Service {
    fn start(holm: &Path, at: &Workspace) -> Result<Self> {
        let data = at.root.join("served");
        let mut child = Command::new(holm)
            .args(["serve", "--port", "0", "--on-stop", "end", "--data-dir"])
            .arg(&data)
            .env("HOLM_RUNTIME_DIR", at.root.join("run-served"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("holm serve"))?;
        let mut announced = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut line = String::new();
        announced.read_line(&mut line).map_err(failed("holm serve"))?;
        let address = line.split("http://").nth(1).and_then(|url| url.split('/').next());
        let address = address.ok_or(format!("no address in {line:?}"))?;
        let stream = TcpStream::connect(address).map_err(failed(address))?;
        stream.set_nodelay(true).map_err(failed(address))?;
        let key = fs::read_to_string(data.join("first-key")).map_err(failed("first-key"))?;
        let stream = BufReader::with_capacity(1 << 20, stream);
        Ok(Self { child, key: key.trim().to_owned(), stream })
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<()> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes()).map_err(failed(path))?;
        stream.write_all(body).map_err(failed(path))
    }

    /// Status and length of the answer.
    fn head(&mut self) -> Result<(u16, usize)> {
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(failed("an answer"))?;
            if line.trim().is_empty() {
                return Ok((status, length));
            }
            if let Some(code) = line.strip_prefix("HTTP/1.1 ") {
                status = code[..3].parse().map_err(|_| line.clone())?;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().map_err(|_| line.clone())?;
            }
        }
    }

    fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Value> {
        self.send(method, path, body)?;
        let (status, length) = self.head()?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(failed(path))?;
        let text = String::from_utf8_lossy(&answer);
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path}: {status} {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Takes a file and throws it away; gives its length.
    fn download(&mut self, path: &str, buffer: &mut [u8]) -> Result<usize> {
        self.send("GET", path, b"")?;
        let (status, length) = self.head()?;
        let mut left = length;
        while left > 0 {
            let most = left.min(buffer.len());
            let read = self.stream.read(&mut buffer[..most]).map_err(failed(path))?;
            if read == 0 {
                return Err(format!("{path}: cut short"));
            }
            left -= read;
        }
        if status == 200 { Ok(length) } else { Err(format!("{path}: {status}")) }
    }

    fn end(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(pid).status().map_err(failed("kill"))?;
        let status = self.child.wait().map_err(failed("holm serve"))?;
        if status.success() { Ok(()) } else { Err(format!("holm serve ended with {status}")) }
    }
}

/// The engine without a face, in this process.
struct Direct {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    id: SandboxId,
}

impl Direct {
    fn start(holm: &Path, at: &Workspace) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("event loop"))?;
        let mut options = LinuxOptions::new(holm);
        options.data_dir = Some(at.root.join("direct"));
        options.runtime_dir = Some(at.root.join("run-direct"));
        let settings = EngineSettings::default();
        options.blank = settings.shape(None).map_err(|error| error.to_string())?;
        let driver = LinuxDriver::start(options).map_err(|error| error.message)?;
        let engine = Engine::new(Arc::new(driver), settings);
        let made = runtime.block_on(engine.sandbox_create(CreateSandbox::default()));
        let id = made.map_err(|error| error.to_string())?.id;
        Ok(Self { runtime, engine, id })
    }

    fn run_true(&self) -> Result<()> {
        let ran = self.runtime.block_on(self.engine.exec_run(&self.id, RunCommand::shell("true")));
        let ran = ran.map_err(|error| error.to_string())?;
        if ran.exit_code == 0 { Ok(()) } else { Err(format!("exec: {ran:?}")) }
    }

    fn end(self) {
        self.runtime.block_on(self.engine.shutdown());
    }
}

/// Adds the rows of REST.
pub fn measure(options: &Options, holm: &Path, at: &Workspace, table: &mut Table) -> Result<()> {
    let mut service = Service::start(holm, at)?;
    let made = service.ask("POST", "/v1/sandboxes", b"{}")?;
    let id = made["id"].as_str().ok_or(format!("no id in {made}"))?;
    let path = format!("/v1/sandboxes/{id}");
    exec(options, holm, at, (&mut service, &path), table)?;
    files(at, (&mut service, &path), table)?;
    service.end()
}

fn exec(
    options: &Options,
    holm: &Path,
    at: &Workspace,
    (service, path): (&mut Service, &str),
    table: &mut Table,
) -> Result<()> {
    let direct = Direct::start(holm, at)?;
    let (mut faced, mut plain) = (Vec::new(), Vec::new());
    let body = json!({"command": "true"}).to_string();
    for round in 0..options.rounds * 2 + 3 {
        let begun = Instant::now();
        let ran = service.ask("POST", &format!("{path}/exec"), body.as_bytes())?;
        let over_rest = begun.elapsed();
        if ran["exit_code"] != json!(0) {
            return Err(format!("exec: {ran}"));
        }
        let begun = Instant::now();
        direct.run_true()?;
        if round >= 3 {
            plain.push(begun.elapsed());
            faced.push(over_rest);
        }
    }
    direct.end();
    let plain = Row::new("the engine without a face: exec true", &plain);
    table.add("REST on a kept connection", Row::new("REST: exec true", &faced), &[&plain]);
    table.add("", plain, &[]);
    Ok(())
}

fn files(at: &Workspace, (service, path): (&mut Service, &str), table: &mut Table) -> Result<()> {
    let data: Vec<u8> =
        (0..LARGE).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let (from, to) = (at.root.join("large"), at.root.join("copy"));
    fs::write(&from, &data).map_err(failed("a large file"))?;
    let raw = format!("{path}/files/raw?path=large");
    let mut buffer = vec![0; 1 << 20];
    let (mut up, mut down, mut copies) = (Vec::new(), Vec::new(), Vec::<Duration>::new());
    for round in 0..10 {
        let begun = Instant::now();
        let copied = Command::new("cp").args([&from, &to]).status().map_err(failed("cp"))?;
        let copy = begun.elapsed();
        if !copied.success() {
            return Err(format!("cp: {copied}"));
        }
        let begun = Instant::now();
        let written = service.ask("PUT", &raw, &data)?;
        let upload = begun.elapsed();
        if written["bytes_written"] != json!(LARGE) {
            return Err(format!("upload: {written}"));
        }
        let begun = Instant::now();
        let length = service.download(&raw, &mut buffer)?;
        if length != LARGE {
            return Err(format!("download: {length} bytes"));
        }
        if round >= 1 {
            down.push(begun.elapsed());
            up.push(upload);
            copies.push(copy);
        }
    }
    let copy = Row::new("cp of the same file", &copies);
    table.add("100 MiB", Row::new("REST: upload", &up), &[&copy]);
    table.add("", Row::new("REST: download", &down), &[&copy]);
    table.add("", copy, &[]);
    Ok(())
}
