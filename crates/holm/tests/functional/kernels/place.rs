//! Sandboxes with kernels.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::common::*;

/// Most bytes of one part of a file that goes into a sandbox.
const PART: usize = 4 << 20;

/// Where the packages are: made once for a run of all tests, see `tests/kernels/make`.
fn packages() -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if let Some(place) = std::env::var_os("HOLM_TEST_KERNELS") {
            return Some(PathBuf::from(place));
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kernels/make");
        let made = Command::new(script).output().ok()?;
        if !made.status.success() {
            println!("{}", String::from_utf8_lossy(&made.stderr));
            return None;
        }
        Some(PathBuf::from(String::from_utf8(made.stdout).ok()?.trim()))
    };
    MADE.get_or_init(make).clone()
}

/// Runs a test in a sandbox that has a kernel for Python, and with `plots` matplotlib.
pub fn with_kernel(home: &Home, plots: bool, test: impl FnOnce(&Mcp, &Sandbox)) {
    let mcp = home.mcp();
    let sandbox = Sandbox { id: mcp.create() };
    if install(&|tool, arguments| mcp.call(tool, arguments), &sandbox.id, plots) {
        test(&mcp, &sandbox);
    }
    mcp.end(home);
}

/// Gives a sandbox its kernel. False, and said so, where it cannot be had.
pub fn install(call: &dyn Fn(&str, Value) -> Tool, sandbox: &str, plots: bool) -> bool {
    let Some(packages) = packages() else {
        println!("SKIP what needs kernels: their packages could not be had");
        return false;
    };
    let run = |line: &str| {
        let wanted = json!({"sandbox_id": sandbox, "command": line, "timeout_ms": 200_000});
        call("run_command", wanted).run().good().to_owned()
    };
    for archive in ["kernel.tgz", "plots.tgz"].into_iter().take(1 + usize::from(plots)) {
        let bytes = std::fs::read(packages.join(archive)).expect("it was made");
        for (number, part) in bytes.chunks(PART).enumerate() {
            let path = format!("/tmp/packages/{archive}.{number:03}");
            let content = STANDARD.encode(part);
            let encoding = "base64";
            let write = json!({"sandbox_id": sandbox, "path": path, "content": content, "encoding": encoding});
            call("write_file", write).ok();
        }
        let all = format!("/tmp/packages/{archive}.*");
        run(&format!("mkdir -p ~/packages && cat {all} | tar -xzf - -C ~/packages && rm {all}"));
    }
    let spec = json!({
        "argv": ["/usr/bin/python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3", "language": "python", "env": {"PYTHONPATH": "${HOME}/packages"},
    });
    let path = "/home/sandbox/.local/share/jupyter/kernels/python3/kernel.json";
    let write = json!({"sandbox_id": sandbox, "path": path, "content": spec.to_string()});
    call("write_file", write).ok();
    true
}

/// A sandbox.
pub struct Sandbox {
    pub id: String,
}

impl Sandbox {
    /// Adds a kernel's specification.
    pub fn specify(&self, mcp: &Mcp, name: &str, spec: &Value) {
        let path = format!("/home/sandbox/.local/share/jupyter/kernels/{name}/kernel.json");
        mcp.write(&self.id, &path, &spec.to_string());
    }

    /// How many processes of a name run.
    pub fn processes(&self, mcp: &Mcp, name: &str) -> usize {
        let count = format!("grep -lx {name} /proc/[0-9]*/comm 2>/dev/null | wc -l");
        mcp.sh(&self.id, &count).good().trim().parse().expect("a number")
    }

    /// Runs code.
    pub fn code(&self, mcp: &Mcp, code: &str) -> Ran {
        self.code_with(mcp, code, json!({}))
    }

    /// Runs code with more arguments of the tool.
    pub fn code_with(&self, mcp: &Mcp, code: &str, mut more: Value) -> Ran {
        more["sandbox_id"] = json!(self.id);
        more["code"] = json!(code);
        if more["timeout_ms"].is_null() {
            more["timeout_ms"] = json!(200_000);
        }
        Ran { tool: mcp.call("run_code", more) }
    }

    /// Calls `code_contexts`.
    pub fn contexts(&self, mcp: &Mcp, mut arguments: Value) -> Tool {
        arguments["sandbox_id"] = json!(self.id);
        mcp.call("code_contexts", arguments)
    }
}

/// What came of code.
pub struct Ran {
    pub tool: Tool,
}

impl Ran {
    /// Its fields, of code that ran in a context.
    pub fn data(&self) -> &Value {
        let data = self.tool.data();
        assert_eq!(data["stateful"], json!(true), "it ran in a kernel: {}", self.tool.text());
        data
    }

    /// What the last expression was, of code that ended well.
    pub fn value(&self) -> String {
        let data = self.data();
        assert_eq!(data["exit_code"], 0, "{}", self.tool.text());
        let outputs = data["outputs"].as_array().expect("a list");
        let last = outputs.iter().rfind(|one| one["type"] == "result");
        last.and_then(|one| one["data"]["text/plain"].as_str()).unwrap_or_default().to_owned()
    }

    /// The name of the error that it raised.
    pub fn raised(&self) -> &str {
        self.data()["raised"]["name"].as_str().unwrap_or_default()
    }

    /// What a reader is told.
    pub fn note(&self) -> &str {
        self.tool.data()["note"].as_str().unwrap_or_default()
    }

    /// Whether variables are there for the next code.
    pub fn kept(&self) -> bool {
        self.data()["variables_kept"].as_bool().expect("it says so")
    }

    /// The images: type and bytes.
    pub fn images(&self) -> Vec<(String, Vec<u8>)> {
        let content = self.tool.result()["content"].as_array().expect("content");
        let images = content.iter().filter(|part| part["type"] == "image");
        images
            .map(|image| {
                let bytes = STANDARD.decode(image["data"].as_str().expect("base64"));
                let mime = image["mimeType"].as_str().expect("a type");
                (mime.to_owned(), bytes.expect("base64"))
            })
            .collect()
    }
}
