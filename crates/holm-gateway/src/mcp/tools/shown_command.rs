//! A command in the background, as tools show it: the same facts as text for the model and as
//! fields.

use std::fmt::Write as _;

use holm_engine::{BackgroundCommand, BackgroundState, OutputPart, SandboxId};
use serde_json::{Value, json};

use crate::mcp::outcome::Output;
use crate::mcp::schema;
use crate::show;

/// The fields that say how it is.
pub fn head(command: &BackgroundCommand) -> Value {
    let mut fields = json!({
        "command_id": command.id,
        "pid": command.pid,
        "command": command.command,
        "state": command.state.as_str(),
        "started_at": show::time(command.started_at),
        "duration_ms": show::milliseconds(command.duration),
        "stdin_open": command.stdin_open,
        "stdout_bytes": command.stdout.total,
        "stderr_bytes": command.stderr.total,
    });
    if let Some(code) = command.exit_code {
        fields["exit_code"] = code.into();
    }
    if let Some(signal) = &command.signal {
        fields["signal"] = signal.as_str().into();
    }
    fields
}

/// What [`head`] gives.
pub fn properties() -> Vec<(&'static str, Value)> {
    let states = BackgroundState::ALL.map(BackgroundState::as_str);
    vec![
        ("command_id", schema::string("Its id, unique in its sandbox.")),
        ("pid", schema::count("Its process id inside.")),
        ("command", schema::string("What it runs, cut where it is long.")),
        ("state", schema::choice("How it is.", &states)),
        ("started_at", schema::string("When it began (RFC 3339).")),
        ("duration_ms", schema::count("How long it has run.")),
        ("stdin_open", schema::boolean("Whether send_input works.")),
        ("stdout_bytes", schema::count("Bytes written so far.")),
        ("stderr_bytes", schema::count("Bytes written so far.")),
        (
            "exit_code",
            json!({"type": "integer", "description": "Once it has ended; 128 + signal after death by a signal."}),
        ),
        ("signal", schema::string("The signal that ended it.")),
    ]
}

/// Those of them that are always there.
pub const ALWAYS: &[&str] = &[
    "command_id",
    "pid",
    "command",
    "state",
    "started_at",
    "duration_ms",
    "stdin_open",
    "stdout_bytes",
    "stderr_bytes",
];

/// The schema of [`answer`]: `place` says what its sandbox is to it. With further fields, of which
/// `always` are always there.
pub fn output(place: &str, more: &[(&'static str, Value)], always: &[&'static str]) -> Value {
    let mut fields = properties();
    fields.push(("sandbox_id", schema::string(place)));
    fields.extend(more.iter().cloned());
    let there: Vec<&str> = ALWAYS.iter().chain(&["sandbox_id"]).chain(always).copied().collect();
    schema::output(&fields, &[&there])
}

/// How it is, in one line.
pub fn line(command: &BackgroundCommand) -> String {
    let mut line = format!("{}: {}", command.id, command.state.as_str());
    // Writing to a string cannot fail.
    let _ = match (command.exit_code, &command.signal) {
        (Some(code), Some(signal)) => write!(line, ", exit code {code} ({signal})"),
        (Some(code), None) => write!(line, ", exit code {code}"),
        (None, _) => write!(line, " for {} ms", show::milliseconds(command.duration)),
    };
    line
}

/// An answer that says how one command is.
pub fn answer(id: &SandboxId, command: &BackgroundCommand) -> Output {
    let mut structured = head(command);
    structured["sandbox_id"] = json!(id);
    Output { text: line(command), structured, failed: false, images: Vec::new() }
}

/// The text of a part, with what is before and after it.
pub fn part(text: &mut String, name: &str, part: &OutputPart) {
    if part.text.is_empty() && part.missed == 0 {
        return;
    }
    let _ = write!(text, "\n\n{name}");
    if part.missed > 0 {
        let _ = write!(text, " ({} older bytes are not kept)", part.missed);
    }
    if part.next < part.total {
        let _ = write!(text, " (more: {name}_from {})", part.next);
    }
    if part.lossy {
        text.push_str(" (bytes that are no UTF-8 are shown as U+FFFD)");
    }
    text.push_str(":\n");
    text.push_str(&part.text);
}
