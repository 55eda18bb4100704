//! `read_file`: a file out of a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::target;
use super::write_file::{ENCODINGS, HIDDEN_ENCODINGS};
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

/// As long as a file can be (2^53: numbers beyond are not exact in JSON).
const MAX_OFFSET: u64 = 1 << 53;

/// What one read carries as the engine is set by default, for the schema; the engine judges.
const MAX_LIMIT: u64 = 16 << 20;

pub(super) fn tool() -> Tool {
    Tool {
        name: "read_file",
        hidden_names: &[],
        title: "Read a file",
        description: "Reads a file of the sandbox. Text is returned as it is; a file that is no \
            UTF-8 text is refused with file_invalid: read it with encoding base64. Relative paths \
            start in /workspace. A file over 16 MiB is refused with too_large: read it in parts \
            with offset and limit; truncated and next_offset say that there is more.",
        hints: Hints::Reads,
        input: schema::input(
            &[
                ("path", schema::string("Which file.")),
                (
                    "encoding",
                    schema::with_default(
                        schema::choice("How content is returned.", &ENCODINGS),
                        "utf-8",
                    ),
                ),
                (
                    "offset",
                    schema::with_default(schema::integer("Byte to start at.", 0, MAX_OFFSET), 0),
                ),
                ("limit", schema::integer("Bytes to return at most.", 1, MAX_LIMIT)),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["path"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Where it was read.")),
                ("path", schema::string("The path as asked for.")),
                ("content", schema::string("The bytes, in the encoding.")),
                ("encoding", schema::choice("How content is given.", &ENCODINGS)),
                ("size", schema::count("Size of the whole file in bytes.")),
                ("truncated", schema::boolean("True when the file goes on after this.")),
                ("next_offset", schema::count("Where to go on.")),
            ],
            &[&["sandbox_id", "path", "content", "encoding", "size", "truncated"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(read(context))
}

async fn read(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let path = args.required_text("path")?;
    let encoding = args.choice("encoding", &ENCODINGS, &HIDDEN_ENCODINGS)?.unwrap_or("utf-8");
    let offset = args.integer("offset", 0..=MAX_OFFSET)?.unwrap_or(0);
    let limit = args.integer("limit", 1..=MAX_OFFSET)?;
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::needed(&context, named).await?;
    let file = context.session.engine().file_read(&target.id, &path, None, offset, limit).await;
    let file = file.map_err(|error| target.error(error))?;
    let (content, taken) = match encoding {
        "base64" => (STANDARD.encode(&file.bytes), file.bytes.len()),
        _ => holm_engine::whole_text(&path, offset, file.bytes, file.truncated)
            .map_err(|error| error.suggest("Call read_file again with `encoding`: \"base64\"."))?,
    };
    let next = offset + taken as u64;
    let mut shown = json!({
        "sandbox_id": target.id, "path": path, "encoding": encoding, "size": file.size,
        "truncated": file.truncated,
    });
    let mut text = content.clone();
    if file.truncated {
        shown["next_offset"] = next.into();
        text.push_str(&format!(
            "\n[bytes {offset} to {next} of {}; go on with offset {next}]",
            file.size
        ));
    }
    shown["content"] = content.into();
    Ok(Output { text, structured: shown, failed: false, images: Vec::new() })
}
