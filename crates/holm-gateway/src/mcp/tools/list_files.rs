//! `list_files`: what is in a directory of a sandbox.

use std::fmt::Write as _;

use holm_engine::FileEntry;
use serde_json::{Value, json};

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

const MAX_LIMIT: u64 = 10_000;

pub(super) fn tool() -> Tool {
    let entry = json!({
        "type": "object",
        "properties": {
            "path": schema::string("Absolute path."),
            "name": schema::string("Its last part."),
            "type": schema::choice("What it is.", &["file", "directory", "symlink", "other"]),
            "size": schema::count("Bytes."),
            "target": schema::string("Where a symlink points."),
        },
        "required": ["path", "name", "type", "size"],
    });
    Tool {
        name: "list_files",
        hidden_names: &[],
        title: "List files",
        description: "Lists a directory of the sandbox with types and sizes, by default \
            /workspace with everything below it. Symlinks are shown, not followed. Long lists \
            come in pages: while truncated is true, call again with cursor set to next_cursor.",
        hints: Hints::Reads,
        input: schema::input(
            &[
                ("path", schema::with_default(schema::string("Which directory."), "/workspace")),
                (
                    "recursive",
                    schema::with_default(schema::boolean("Also what is below it."), true),
                ),
                (
                    "limit",
                    schema::with_default(schema::integer("Entries in a page.", 1, MAX_LIMIT), 1000),
                ),
                ("cursor", schema::string("next_cursor of the page before.")),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &[],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Where it was listed.")),
                ("path", schema::string("The directory.")),
                ("files", json!({"type": "array", "items": entry})),
                ("truncated", schema::boolean("True when there are more pages.")),
                ("next_cursor", schema::string("For the next page.")),
                ("unreadable", schema::words("Directories that could not be read.")),
            ],
            &[&["sandbox_id", "path", "files", "truncated"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(list(context))
}

async fn list(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let path = args.word("path")?.unwrap_or_else(|| "/workspace".to_owned());
    let recursive = args.flag("recursive")?.unwrap_or(true);
    let limit = args.integer("limit", 1..=MAX_LIMIT)?.unwrap_or(1000);
    let after = args.word("cursor")?;
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let target = target::needed(&context, named).await?;
    let limit = u32::try_from(limit).ok();
    let engine = context.session.engine();
    let page = engine.file_list(&target.id, &path, None, recursive, limit, after.as_deref()).await;
    let page = page.map_err(|error| target.error(error))?;
    let mut shown = json!({
        "sandbox_id": target.id,
        "path": path,
        "files": page.files.iter().map(show).collect::<Vec<_>>(),
        "truncated": page.next.is_some(),
    });
    let mut text = format!("{path}: {} entries", page.files.len());
    for file in &page.files {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "\n{} {} {}", file.kind, file.size, file.path);
        if let Some(target) = &file.target {
            let _ = write!(text, " -> {target}");
        }
    }
    if let Some(next) = &page.next {
        let _ = write!(text, "\n[there is more; go on with cursor {}]", json!(next));
        shown["next_cursor"] = next.as_str().into();
    }
    if !page.unreadable.is_empty() {
        let _ = write!(text, "\n[could not be read: {}]", page.unreadable.join(", "));
        shown["unreadable"] = json!(page.unreadable);
    }
    Ok(Output { text, structured: shown, failed: false, images: Vec::new() })
}

fn show(file: &FileEntry) -> Value {
    let mut shown = json!({
        "path": file.path, "name": file.name, "type": file.kind, "size": file.size,
    });
    if let Some(target) = &file.target {
        shown["target"] = target.as_str().into();
    }
    shown
}
