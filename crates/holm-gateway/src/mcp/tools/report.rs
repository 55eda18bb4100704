//! How the end of a command is told: the same facts as text for the model and as fields.

use std::fmt::Write as _;

use holm_engine::{CommandResult, Output as Stream, SandboxId};
use serde_json::{Map, Value, json};

use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;

/// The answer about a command that ended.
pub fn output(id: &SandboxId, result: &CommandResult) -> Output {
    let mut structured = fields(result);
    structured.insert("sandbox_id".to_owned(), json!(id));
    Output {
        text: text(result),
        structured: Value::Object(structured),
        failed: result.exit_code != 0 || result.timed_out || result.out_of_memory,
    }
}

/// Adds what a command had written to the error about its sandbox's end.
pub fn add_partial(error: ToolError, partial: Option<&CommandResult>) -> ToolError {
    let Some(partial) = partial else { return error };
    let mut error = error;
    error.appendix = text(partial);
    let mut facts = fields(partial);
    facts.append(&mut error.details);
    error.details = facts;
    error
}

fn fields(result: &CommandResult) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("exit_code", result.exit_code.into());
    for (name, stream) in [("stdout", &result.stdout), ("stderr", &result.stderr)] {
        put(name, stream.text.as_str().into());
        put(&format!("{name}_truncated"), stream.truncated.into());
        put(&format!("{name}_bytes"), stream.bytes.into());
        if stream.lossy {
            put(&format!("{name}_lossy"), true.into());
        }
    }
    put("timed_out", result.timed_out.into());
    if let Some(signal) = &result.signal {
        put("signal", signal.as_str().into());
    }
    if result.out_of_memory {
        put("out_of_memory", true.into());
    }
    let milliseconds = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
    put("duration_ms", milliseconds.into());
    if let Some(note) = &result.note {
        put("note", note.as_str().into());
    }
    fields
}

fn text(result: &CommandResult) -> String {
    let mut text = format!("exit code {}", result.exit_code);
    if let Some(signal) = &result.signal {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, " ({signal})");
    }
    if result.timed_out {
        let limit = result.timeout.as_secs_f64();
        let _ = write!(
            text,
            "\ntimed out after {limit} s: the command and all that it had started were killed; \
             give a longer timeout_ms if it needs one"
        );
    }
    if result.out_of_memory {
        text.push_str("\nout of memory: the sandbox has used up its memory");
    }
    if let Some(note) = &result.note {
        let _ = write!(text, "\n{note}");
    }
    stream(&mut text, "stdout", &result.stdout);
    stream(&mut text, "stderr", &result.stderr);
    text
}

fn stream(text: &mut String, name: &str, stream: &Stream) {
    if stream.bytes == 0 && stream.text.is_empty() {
        return;
    }
    let _ = write!(text, "\n\n{name}");
    if stream.truncated {
        let _ = write!(text, " (cut: {} bytes in all, beginning and end shown)", stream.bytes);
    }
    if stream.lossy {
        text.push_str(" (bytes that are no UTF-8 are shown as U+FFFD)");
    }
    text.push_str(":\n");
    text.push_str(&stream.text);
}

/// The fields of [`output`].
pub fn properties() -> Vec<(&'static str, Value)> {
    vec![
        ("sandbox_id", schema::string("Where it ran.")),
        (
            "exit_code",
            json!({"type": "integer", "description": "128 + signal after death by a signal."}),
        ),
        ("stdout", schema::string("Standard output; where it was cut, its beginning and end.")),
        ("stderr", schema::string("Standard error; the same.")),
        ("stdout_truncated", schema::boolean("True when stdout was cut.")),
        ("stderr_truncated", schema::boolean("True when stderr was cut.")),
        ("stdout_bytes", schema::count("Bytes written in all.")),
        ("stderr_bytes", schema::count("Bytes written in all.")),
        ("stdout_lossy", schema::boolean("True when bytes that are no UTF-8 were replaced.")),
        ("stderr_lossy", schema::boolean("The same.")),
        ("timed_out", schema::boolean("True when it was killed at its time limit.")),
        ("signal", schema::string("The signal that ended it.")),
        ("out_of_memory", schema::boolean("True when memory ran out.")),
        ("duration_ms", schema::count("Wall time.")),
        ("note", schema::string("Which limit ended it.")),
    ]
}

/// Those of [`properties`] that are always there.
pub const ALWAYS: &[&str] = &[
    "sandbox_id",
    "exit_code",
    "stdout",
    "stderr",
    "stdout_truncated",
    "stderr_truncated",
    "stdout_bytes",
    "stderr_bytes",
    "timed_out",
    "duration_ms",
];
