//! How the end of a command is told: the same facts as text for the model and as fields.

use std::fmt::Write as _;

use holm_engine::{CommandResult, Output as Stream, SandboxId};
use serde_json::{Map, Value, json};

use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::show;

/// The answer about a command that ended.
pub fn output(id: &SandboxId, result: &CommandResult) -> Output {
    let mut structured = fields(result);
    structured.insert("sandbox_id".to_owned(), json!(id));
    Output {
        text: text(result),
        structured: Value::Object(structured),
        failed: result.exit_code != 0 || result.timed_out,
        images: Vec::new(),
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
    put("duration_ms", show::milliseconds(result.duration).into());
    if let Some(note) = &result.note {
        put("note", note.as_str().into());
    }
    fields
}

fn text(result: &CommandResult) -> String {
    let mut text = head(result);
    stream(&mut text, "stdout", &result.stdout);
    stream(&mut text, "stderr", &result.stderr);
    text
}

/// How it ended, without what it wrote.
pub fn head(result: &CommandResult) -> String {
    let mut text = format!("exit code {}", result.exit_code);
    if let Some(signal) = &result.signal {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, " ({signal})");
    }
    if result.timed_out {
        text.push_str("\ntimed out; give a longer timeout_ms if it needs more time");
    }
    if result.out_of_memory {
        text.push_str("\nout of memory");
    }
    if let Some(note) = &result.note {
        let _ = write!(text, "\n{note}");
    }
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
        (
            "out_of_memory",
            schema::boolean("True when a process in the sandbox was killed for memory meanwhile."),
        ),
        ("duration_ms", schema::count("Wall time.")),
        ("note", schema::string("Which limit was met.")),
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(change: impl FnOnce(&mut CommandResult), expected: &str, failed: bool) {
        let mut result = CommandResult { duration: Duration::from_millis(5), ..Default::default() };
        change(&mut result);
        let id = "sbx_0123456789abcdef01".parse().expect("an id");
        let output = output(&id, &result);
        assert_eq!((output.text.as_str(), output.failed), (expected, failed));
        for name in ALWAYS {
            assert!(!output.structured[name].is_null(), "{name} is missing");
        }
    }

    fn stream(text: &str) -> Stream {
        Stream { text: text.to_owned(), bytes: text.len() as u64, ..Stream::default() }
    }

    #[test]
    fn a_command_is_told_plainly() {
        check(|_| {}, "exit code 0", false);
        check(|result| result.stdout = stream("a\n"), "exit code 0\n\nstdout:\na\n", false);
        check(
            |result| {
                result.exit_code = 1;
                result.stdout = stream("a");
                result.stderr = stream("b");
            },
            "exit code 1\n\nstdout:\na\n\nstderr:\nb",
            true,
        );
        check(
            |result| {
                result.stdout =
                    Stream { text: "x".to_owned(), truncated: true, lossy: true, bytes: 3_000_000 };
            },
            "exit code 0\n\nstdout (cut: 3000000 bytes in all, beginning and end shown) \
             (bytes that are no UTF-8 are shown as U+FFFD):\nx",
            false,
        );
        check(
            |result| {
                result.exit_code = 137;
                result.signal = Some("SIGKILL".to_owned());
                result.timed_out = true;
                result.note = Some("killed at its time limit of 1 second".to_owned());
            },
            "exit code 137 (SIGKILL)\ntimed out; give a longer timeout_ms if it needs more time\n\
             killed at its time limit of 1 second",
            true,
        );
        // Some process was killed; what the command made of it is its exit code.
        for (code, failed) in [(0, false), (3, true)] {
            check(
                |result| {
                    result.exit_code = code;
                    result.out_of_memory = true;
                },
                &format!("exit code {code}\nout of memory"),
                failed,
            );
        }
    }

    #[test]
    fn case_64_an_error_carries_what_was_written_so_far() {
        let partial =
            CommandResult { exit_code: 137, stdout: stream("so far\n"), ..Default::default() };
        let error = ToolError::new("sandbox_gone", "gone").with("ended_reason", "expired");
        let error = add_partial(error, Some(&partial));
        assert_eq!(error.appendix, "exit code 137\n\nstdout:\nso far\n");
        assert_eq!(error.details["stdout"], "so far\n");
        assert_eq!(error.details["ended_reason"], "expired");
    }
}
