//! `write_file`: a file into a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::json;

use super::target;
use crate::mcp::outcome::{Output, ToolError};
use crate::mcp::schema;
use crate::mcp::tool::{Context, Hints, Tool, Work};

pub(super) const ENCODINGS: [&str; 2] = ["utf-8", "base64"];
/// Spellings of `utf-8`.
pub(super) const HIDDEN_ENCODINGS: [(&str, &str); 3] =
    [("utf8", "utf-8"), ("UTF-8", "utf-8"), ("text", "utf-8")];

pub(super) fn tool() -> Tool {
    Tool {
        name: "write_file",
        hidden_names: &[],
        title: "Write a file",
        description: "Writes a file in the sandbox: content arrives exactly as given (quotes, \
            backquotes, $ and line ends are safe; no shell sees it). Missing directories are made, \
            an existing file is replaced in one step. Relative paths start in /workspace. Use \
            encoding base64 for binary content. One call carries up to about 8 MB.",
        hints: Hints::Settles,
        input: schema::input(
            &[
                ("path", schema::string("Where, such as src/main.py or /workspace/data.csv.")),
                ("content", schema::string("The file's whole content.")),
                (
                    "encoding",
                    schema::with_default(
                        schema::choice("How content is given.", &ENCODINGS),
                        "utf-8",
                    ),
                ),
                ("mode", schema::string("Permission bits in octal, such as \"0755\" for scripts.")),
                ("sandbox_id", schema::sandbox_id()),
            ],
            &["path", "content"],
        ),
        output: schema::output(
            &[
                ("sandbox_id", schema::string("Where it was written.")),
                ("path", schema::string("Its absolute path.")),
                ("bytes_written", schema::count("Its size.")),
            ],
            &[&["sandbox_id", "path", "bytes_written"]],
        ),
        makes_default: false,
        run,
    }
}

fn run(context: Context) -> Work {
    Box::pin(write(context))
}

async fn write(mut context: Context) -> Result<Output, ToolError> {
    let args = &mut context.args;
    let path = args.required_text("path")?;
    let content = args.required_text("content")?;
    let encoding = args.choice("encoding", &ENCODINGS, &HIDDEN_ENCODINGS)?;
    let mode = args.mode("mode")?;
    let named = args.word("sandbox_id")?;
    args.finish()?;
    let bytes = match encoding {
        Some("base64") => decode(content)?,
        _ => Bytes::from(content),
    };
    let target = target::needed(&context, named).await?;
    let written = context.session.engine().file_write(&target.id, &path, None, mode, bytes).await;
    let written = written.map_err(|error| target.error(error))?;
    Ok(Output::json(json!({
        "sandbox_id": target.id, "path": written.path, "bytes_written": written.bytes,
    })))
}

/// Standard base64 with padding; line breaks are left out, as tools that make base64 add them.
fn decode(content: String) -> Result<Bytes, ToolError> {
    let compact =
        if content.contains(['\n', '\r']) { content.replace(['\n', '\r'], "") } else { content };
    STANDARD.decode(compact).map(Bytes::from).map_err(|error| {
        ToolError::invalid(format!("`content` is no valid base64 (standard alphabet): {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_31_bad_base64_is_refused_with_the_argument_named() {
        assert_eq!(decode("AP8=".to_owned()).expect("valid"), Bytes::from_static(b"\0\xff"));
        assert_eq!(
            decode("AP\r\n8=\n".to_owned()).expect("wrapped"),
            Bytes::from_static(b"\0\xff")
        );
        assert_eq!(decode(String::new()).expect("empty"), Bytes::new());
        for bad in ["AP8", "A P8=", "****", "AP8=AP8="] {
            let error = decode(bad.to_owned()).expect_err(bad);
            assert!(error.message.starts_with("`content` is no valid base64"), "{error}");
        }
    }
}
