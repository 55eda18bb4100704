//! How what came of code in a context is told: outputs in their order as text, images as images, and the
//! same as fields.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holm_engine::{CodeOutput, CodeOutputKind, CodeResult, KernelResult, SandboxId};
use serde_json::{Map, Value, json};

use super::report;
use crate::mcp::outcome::{Image, Output};
use crate::mcp::schema;

/// Images in one answer.
const MOST_IMAGES: usize = 20;
/// Which of several forms a model reads, best first.
const READABLE: [&str; 7] = [
    "text/markdown",
    "text/plain",
    "text/latex",
    "text/html",
    "application/json",
    "application/javascript",
    "text/javascript",
];
/// Images that clients show.
const IMAGES: [&str; 2] = ["image/png", "image/jpeg"];

/// The answer about code that ran.
pub fn output(id: &SandboxId, ran: &CodeResult) -> Output {
    let mut output = report::output(id, &ran.result);
    output.structured["language"] = ran.language.as_str().into();
    output.structured["stateful"] = ran.stateful.into();
    let Some(kernel) = &ran.kernel else { return output };
    let mut text = report::head(&ran.result);
    let mut shown = Vec::new();
    for one in &kernel.outputs {
        let (line, fields) = tell(one, kernel, &mut output.images);
        text.push_str(&line);
        shown.push(fields);
    }
    output.text = text;
    let fields = &mut output.structured;
    fields["context"] = kernel.context.as_str().into();
    fields["variables_kept"] = kernel.variables_kept.into();
    if let Some(count) = kernel.count {
        fields["execution_count"] = count.into();
    }
    fields["outputs"] = shown.into();
    if let Some(error) = &kernel.error {
        fields["raised"] = json!({
            "name": error.name, "value": error.value, "traceback": error.traceback,
        });
    }
    output
}

/// One output as text and as fields; its images join the others.
fn tell(one: &CodeOutput, kernel: &KernelResult, images: &mut Vec<Image>) -> (String, Value) {
    let mut fields = Map::from_iter([("type".to_owned(), one.kind.as_str().into())]);
    let name = one.kind.as_str();
    match one.kind {
        CodeOutputKind::Stdout | CodeOutputKind::Stderr => {
            fields.insert("text".to_owned(), one.text.as_str().into());
            return (format!("\n\n{name}:\n{}", one.text), fields.into());
        }
        CodeOutputKind::Error => {
            let error = kernel.error.clone().unwrap_or_default();
            let traceback = match error.traceback.is_empty() {
                true => format!("{}: {}", error.name, error.value),
                false => error.traceback,
            };
            return (format!("\n\nerror:\n{traceback}"), fields.into());
        }
        CodeOutputKind::Result | CodeOutputKind::Display => {}
    }
    let mut lines = Vec::new();
    let before = images.len();
    for (form, bytes) in &one.binaries {
        let known = IMAGES.into_iter().find(|image| image == form);
        if let Some(mime) = known.filter(|_| images.len() < MOST_IMAGES) {
            images.push(Image { data: STANDARD.encode(bytes), mime });
            lines.push(format!("[{form}, {} bytes: image {} below]", bytes.len(), images.len()));
        } else if !one.saved.contains_key(form) {
            let hint = "call again with save_to to have it as a file";
            lines.push(format!("[{form}, {} bytes: {hint}]", bytes.len()));
        }
    }
    if images.len() > before {
        fields.insert("images".to_owned(), (before..images.len()).collect::<Vec<_>>().into());
    }
    if let Some(text) = READABLE.iter().find_map(|form| one.texts.get(*form)) {
        lines.push(text.clone());
    }
    for (form, path) in &one.saved {
        lines.push(format!("[{form} saved as {path}]"));
    }
    for (form, bytes) in &one.left_out {
        lines.push(format!("[{form}, {bytes} bytes, left out]"));
    }
    let sizes: Map<String, Value> =
        one.binaries.iter().map(|(form, bytes)| (form.clone(), bytes.len().into())).collect();
    for (name, value) in [
        ("data", json!(one.texts)),
        ("binary_bytes", sizes.into()),
        ("saved", json!(one.saved)),
        ("left_out_bytes", json!(one.left_out)),
    ] {
        if value.as_object().is_some_and(|value| !value.is_empty()) {
            fields.insert(name.to_owned(), value);
        }
    }
    let mut text = format!("\n\n{name}:");
    for line in lines {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{line}");
    }
    (text, fields.into())
}

/// The fields of [`output`].
pub fn properties() -> Vec<(&'static str, Value)> {
    let kinds = CodeOutputKind::ALL.map(CodeOutputKind::as_str);
    let object = |description: &str| json!({"type": "object", "description": description});
    let item = json!({
        "type": "object",
        "properties": {
            "type": schema::choice("What it is.", &kinds),
            "text": schema::string("Of stdout and stderr."),
            "data": schema::strings_by_name("Of a result: its forms that are text, by media type."),
            "binary_bytes": object("Sizes of the others."),
            "images": {
                "type": "array", "items": {"type": "integer"},
                "description": "Which images of this answer's content, from 0.",
            },
            "saved": schema::strings_by_name("Where save_to has stored forms."),
            "left_out_bytes": object("Sizes of forms that had no room."),
        },
        "required": ["type"],
    });
    let raised = json!({
        "type": "object",
        "description": "The error that the code raised.",
        "properties": {
            "name": {"type": "string"}, "value": {"type": "string"}, "traceback": {"type": "string"},
        },
        "required": ["name", "value", "traceback"],
    });
    let mut fields = report::properties();
    fields.extend([
        ("language", schema::string("The language.")),
        ("stateful", schema::boolean("True when it ran in a context, which keeps variables.")),
        ("context", schema::string("In which context it ran.")),
        ("variables_kept", schema::boolean("Whether the next code there has its variables.")),
        ("execution_count", schema::count("Its number in the context's kernel.")),
        (
            "outputs",
            json!({"type": "array", "description": "What it wrote and showed, in order.", "items": item}),
        ),
        ("raised", raised),
    ]);
    fields
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use holm_engine::{CodeError, CommandResult, Language};

    use super::*;

    fn one(kind: CodeOutputKind, text: &str) -> CodeOutput {
        CodeOutput {
            kind,
            text: text.to_owned(),
            is_cut: false,
            texts: BTreeMap::new(),
            binaries: BTreeMap::new(),
            left_out: BTreeMap::new(),
            saved: BTreeMap::new(),
        }
    }

    #[test]
    fn outputs_are_told_in_order_and_images_are_images() {
        let mut figure = one(CodeOutputKind::Display, "");
        figure.binaries.insert("image/png".to_owned(), (&b"png"[..]).into());
        figure.binaries.insert("application/pdf".to_owned(), (&b"pdf"[..]).into());
        figure.texts.insert("text/plain".to_owned(), "<Figure>".to_owned());
        figure.saved.insert("application/pdf".to_owned(), "/w/1.pdf".to_owned());
        let kernel = KernelResult {
            context: "python".to_owned(),
            variables_kept: true,
            count: Some(2),
            outputs: vec![
                one(CodeOutputKind::Stdout, "a\n"),
                figure,
                one(CodeOutputKind::Error, ""),
            ],
            error: Some(CodeError {
                name: "E".to_owned(),
                value: "v".to_owned(),
                ..CodeError::default()
            }),
            outputs_dropped: 0,
        };
        let result = CommandResult { exit_code: 1, ..CommandResult::default() };
        let ran =
            CodeResult { result, language: Language::Python, stateful: true, kernel: Some(kernel) };
        let told = output(&"sbx_0123456789abcdef01".parse().unwrap(), &ran);
        assert_eq!(
            told.text,
            "exit code 1\n\nstdout:\na\n\n\ndisplay:\n[image/png, 3 bytes: image 1 below]\n<Figure>\n\
             [application/pdf saved as /w/1.pdf]\n\nerror:\nE: v"
        );
        assert_eq!(told.images, [Image { data: "cG5n".to_owned(), mime: "image/png" }]);
        assert_eq!(told.structured["outputs"][1]["images"], json!([0]));
        assert_eq!(told.structured["raised"]["name"], "E");
        assert_eq!(told.structured["context"], "python");
    }
}
