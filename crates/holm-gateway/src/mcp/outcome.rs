//! What a tool call comes to: a readable text and the same as structured content. Errors a model
//! can act on are results too, with a stable code, what happened and what to do next.

use serde_json::{Map, Value, json};

/// A tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// For the model to read.
    pub text: String,
    /// For programs; fits the tool's output schema.
    pub structured: Value,
    /// True where the tool did its work and what it ran failed.
    pub failed: bool,
    /// What it shows besides, in order.
    pub images: Vec<Image>,
}

/// An image for the model to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its bytes in base64.
    pub data: String,
    /// `image/png` or `image/jpeg`.
    pub mime: &'static str,
}

impl Output {
    /// An answer whose text is its JSON.
    #[must_use]
    pub fn json(structured: Value) -> Self {
        Self { text: structured.to_string(), structured, failed: false, images: Vec::new() }
    }
}

/// A call that failed in a way the caller can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// One of the engine's error kinds.
    pub code: &'static str,
    /// What happened, to what.
    pub message: String,
    /// What to do next.
    pub suggestion: Option<String>,
    /// Facts for programs, beside the error.
    pub details: Map<String, Value>,
    /// More for the model to read, below the message (what a command had written so far).
    pub appendix: String,
}

impl ToolError {
    /// An error of kind `code`.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        let details = Map::new();
        Self { code, message: message.into(), suggestion: None, details, appendix: String::new() }
    }

    /// Arguments that cannot be used.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message).suggest("Correct the arguments and call again.")
    }

    /// The same with a suggestion.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// The same with a fact beside the error.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl From<holm_engine::Error> for ToolError {
    fn from(error: holm_engine::Error) -> Self {
        // The engine has logged what it could not expect; this is for following single calls.
        if let Some(internal) = &error.internal {
            tracing::debug!(kind = %error.kind, %internal, "a call failed");
        }
        let mut failure = Self::new(error.kind.as_str(), error.public).suggest(error.suggestion);
        if let Some(ended) = error.ended {
            failure = failure
                .with("ended_reason", ended.reason.as_str())
                .with("ended_at", ended.at_text());
        }
        failure
    }
}

impl From<holm_engine::IdError> for ToolError {
    fn from(error: holm_engine::IdError) -> Self {
        holm_engine::Error::from(error).into()
    }
}

/// The `tools/call` result.
#[must_use]
pub fn call_result(outcome: Result<Output, ToolError>) -> Value {
    let output = outcome.unwrap_or_else(|failure| {
        let mut text = format!("Error ({}): {}", failure.code, failure.message);
        let mut error = json!({"code": failure.code, "message": failure.message});
        if let Some(suggestion) = failure.suggestion {
            text.push('\n');
            text.push_str(&suggestion);
            error["suggestion"] = suggestion.into();
        }
        if !failure.appendix.is_empty() {
            text.push_str("\n\n");
            text.push_str(&failure.appendix);
        }
        let mut structured = failure.details;
        structured.insert("error".to_owned(), error);
        Output { text, structured: Value::Object(structured), failed: true, images: Vec::new() }
    });
    let mut result = json!({"content": [{"type": "text"}], "isError": output.failed});
    // Moved: `json!` would copy them, and they may be long.
    result["content"][0]["text"] = output.text.into();
    result["structuredContent"] = output.structured;
    if let Some(content) = result["content"].as_array_mut() {
        content.extend(output.images.into_iter().map(|image| {
            json!({"type": "image", "mimeType": image.mime, "data": Value::String(image.data)})
        }));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do_in_both_forms() {
        let error = ToolError::new("file_not_found", "no such file: a").suggest("Call list_files.");
        assert_eq!(
            call_result(Err(error)),
            json!({
                "content": [{
                    "type": "text",
                    "text": "Error (file_not_found): no such file: a\nCall list_files.",
                }],
                "structuredContent": {"error": {
                    "code": "file_not_found",
                    "message": "no such file: a",
                    "suggestion": "Call list_files.",
                }},
                "isError": true,
            })
        );
    }
}
