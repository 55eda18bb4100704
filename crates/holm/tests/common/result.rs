//! Results of tool calls.

use serde_json::Value;

/// The reply to a `tools/call`.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The whole JSON-RPC reply.
    pub reply: Value,
}

impl Tool {
    /// `result`; panics on a JSON-RPC error.
    pub fn result(&self) -> &Value {
        assert!(self.reply.get("error").is_none(), "a protocol error: {}", short(&self.reply));
        &self.reply["result"]
    }

    /// Whether the call is marked as failed.
    pub fn is_error(&self) -> bool {
        self.result()["isError"].as_bool().unwrap_or(false)
    }

    /// `structuredContent` of a call that must have worked.
    pub fn ok(&self) -> &Value {
        assert!(!self.is_error(), "the call failed: {}", short(&self.reply));
        self.data()
    }

    /// `structuredContent`, whatever the outcome.
    pub fn data(&self) -> &Value {
        &self.result()["structuredContent"]
    }

    /// The error's stable code; panics when the call worked.
    pub fn code(&self) -> String {
        assert!(self.is_error(), "the call should have failed: {}", short(&self.reply));
        self.data()["error"]["code"]
            .as_str()
            .unwrap_or_else(|| panic!("no code: {}", short(&self.reply)))
            .to_owned()
    }

    /// All text of the content.
    pub fn text(&self) -> String {
        let parts = self.result()["content"].as_array().cloned().unwrap_or_default();
        parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The result as that of a command that ran, whatever its exit code.
    pub fn run(&self) -> Run {
        let data = self.data();
        assert!(data.get("error").is_none(), "the command did not run: {}", short(&self.reply));
        let text = |key: &str| {
            data[key]
                .as_str()
                .unwrap_or_else(|| panic!("no {key}: {}", short(&self.reply)))
                .to_owned()
        };
        let flag = |key: &str| data[key].as_bool().unwrap_or(false);
        let run = Run {
            exit_code: data["exit_code"]
                .as_i64()
                .unwrap_or_else(|| panic!("no exit_code: {}", short(&self.reply))),
            stdout: text("stdout"),
            stderr: text("stderr"),
            stdout_bytes: data["stdout_bytes"].as_u64().unwrap_or(0),
            stdout_truncated: flag("stdout_truncated"),
            stderr_truncated: flag("stderr_truncated"),
            timed_out: flag("timed_out"),
            out_of_memory: flag("out_of_memory"),
            signal: data.get("signal").filter(|v| !v.is_null()).cloned(),
            data: data.clone(),
        };
        assert_eq!(
            self.is_error(),
            run.exit_code != 0,
            "isError follows the exit code: {}",
            short(&self.reply)
        );
        run
    }
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Run {
    pub exit_code: i64,
    pub stdout: String,
    pub stderr: String,
    pub stdout_bytes: u64,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    pub timed_out: bool,
    pub out_of_memory: bool,
    pub signal: Option<Value>,
    pub data: Value,
}

impl Run {
    /// Standard output without the last line's end, of a command that must have exited with 0.
    pub fn good(&self) -> &str {
        assert_eq!(
            self.exit_code,
            0,
            "stdout {:?} stderr {:?}",
            cut(&self.stdout),
            cut(&self.stderr)
        );
        self.stdout.trim_end_matches('\n')
    }
}

fn cut(text: &str) -> String {
    text.chars().take(2000).collect()
}

fn short(value: &Value) -> String {
    cut(&value.to_string())
}
