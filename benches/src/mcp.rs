//! A small client of `holm mcp`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::Result;
use crate::running::Running;
use crate::workspace::Workspace;

/// A running server.
pub struct Mcp {
    child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Mcp {
    /// Starts `holm mcp` with room for `sandboxes`, and says hello.
    pub fn start(holm: &Path, at: &Workspace, sandboxes: usize) -> Result<Self> {
        let child = Command::new(holm)
            .arg("mcp")
            .env("HOLM_DATA_DIR", at.root.join("data"))
            .env("HOLM_RUNTIME_DIR", at.root.join("run"))
            .env("HOLM_MAX_SANDBOXES", sandboxes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("holm mcp: {error}"))?;
        let mut child = Running(child);
        let input = child.0.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(child.0.stdout.take().ok_or("no stdout")?);
        let mut this = Self { child, input, output, next: 0 };
        this.request("initialize", &json!({"protocolVersion": "2025-06-18"}))?;
        Ok(this)
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.next += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        let sent = writeln!(self.input, "{request}").and_then(|()| self.input.flush());
        sent.map_err(|error| format!("holm mcp: {error}"))?;
        Ok(self.next)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        if read == 0 {
            return Err("holm mcp ended".to_owned());
        }
        serde_json::from_str(&line).map_err(|error| format!("holm mcp: {error}: {line}"))
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.send(method, params)?;
        let reply = self.receive()?;
        reply.get("result").cloned().ok_or(format!("{method}: {reply}"))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        Self::checked(tool, &result)
    }

    fn checked(tool: &str, result: &Value) -> Result<Value> {
        if result["isError"] == json!(true) {
            return Err(format!("{tool}: {}", result["structuredContent"]));
        }
        Ok(result["structuredContent"].clone())
    }

    /// Makes a sandbox.
    pub fn create(&mut self) -> Result<String> {
        let made = self.call("create_sandbox", &json!({}))?;
        made["sandbox_id"].as_str().map(str::to_owned).ok_or(format!("no id in {made}"))
    }

    /// Makes `count` sandboxes, `wide` at a time; returns their ids.
    pub fn create_many(&mut self, count: usize, wide: usize) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let params = json!({"name": "create_sandbox", "arguments": {}});
        let mut sent = 0;
        while ids.len() < count {
            while sent < count && sent - ids.len() < wide {
                self.send("tools/call", &params)?;
                sent += 1;
            }
            let reply = self.receive()?;
            let made = Self::checked("create_sandbox", &reply["result"])?;
            ids.push(made["sandbox_id"].as_str().ok_or(format!("no id in {made}"))?.to_owned());
        }
        Ok(ids)
    }

    /// Runs `true` and checks that it ran.
    pub fn run_true(&mut self, id: &str) -> Result<()> {
        let ran = self.call("run_command", &json!({"sandbox_id": id, "command": "true"}))?;
        if ran["exit_code"] == json!(0) { Ok(()) } else { Err(format!("run_command: {ran}")) }
    }

    /// Runs a command that must succeed; its output.
    pub fn run(&mut self, id: &str, command: &str) -> Result<String> {
        let arguments = json!({"sandbox_id": id, "command": command, "timeout_ms": 600_000});
        let ran = self.call("run_command", &arguments)?;
        let text = ran["stdout"].as_str().filter(|_| ran["exit_code"] == json!(0));
        text.map(str::to_owned).ok_or(format!("{command}: {ran}"))
    }

    /// Writes a file.
    pub fn write(&mut self, id: &str, path: &str, content: &str) -> Result<()> {
        let arguments = json!({"sandbox_id": id, "path": path, "content": content});
        self.call("write_file", &arguments).map(drop)
    }

    /// Ends a sandbox and waits until it is gone.
    pub fn destroy(&mut self, id: &str) -> Result<()> {
        self.call("destroy_sandbox", &json!({"sandbox_id": id})).map(drop)
    }

    /// Closes the server's input and waits for it; it ends its sandboxes.
    pub fn end(mut self) -> Result<()> {
        drop(self.input);
        let status = self.child.0.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("holm mcp ended with {status}")) }
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Private memory in KiB of one guest at rest: the smallest among the processes below the
    /// server whose program is the guest.
    pub fn guest_private_kib(&mut self, _at: &Workspace) -> Result<u64> {
        let guests = crate::crowd::guests(self.pid());
        let least = guests.iter().filter_map(|pid| crate::crowd::private_kib(*pid)).min();
        least.ok_or_else(|| "no guest process found below holm mcp".to_owned())
    }
}
