//! `docs/reference/tools.md`: the MCP tools, as `holm mcp` itself lists them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use crate::cell;

pub fn page() -> String {
    let mut page = String::from(
        "# Tools\n\n\
         The tools of `holm mcp`, in the order of `tools/list`. Arguments in bold are required. \
         Spellings of comparable systems (`timeout` in seconds, `envs`, `kill_sandbox`, …) are \
         accepted too and not listed. Failed calls are described in [errors](errors.md).\n\n",
    );
    for tool in list() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let _ = write!(page, "## {}\n\n{}\n\n", text(&tool["name"]), text(&tool["description"]));
        fields(&mut page, "argument", &tool["inputSchema"]);
        fields(&mut page, "result", &tool["outputSchema"]);
    }
    page
}

/// Asks the program, so that the page shows what a client gets.
fn list() -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_holm"))
        .args(["mcp", "--local"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("holm starts");
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let mut stdin = child.stdin.take().expect("it is a pipe");
    stdin.write_all(request).and_then(|()| stdin.write_all(b"\n")).expect("holm reads");
    drop(stdin);
    let output = child.wait_with_output().expect("holm ends");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let reply: Value = serde_json::from_str(text.lines().next().expect("a reply")).expect("JSON");
    reply["result"]["tools"].as_array().expect("a list of tools").clone()
}

fn fields(page: &mut String, what: &str, schema: &Value) {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    if properties.is_empty() {
        let _ = write!(page, "No {what}s.\n\n");
        return;
    }
    let _ = write!(page, "| {what} | type | meaning |\n| --- | --- | --- |\n");
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in properties {
        let bold = what == "argument" && required.iter().any(|item| item == name.as_str());
        let name = if bold { format!("**`{name}`**") } else { format!("`{name}`") };
        let description = property["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| {name} | {} | {} |", kind(property), cell(description));
    }
    page.push('\n');
}

fn kind(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" ");
    }
    match &property["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(property)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn kind_of_items(property: &Value) -> &str {
    property["items"]["type"].as_str().unwrap_or("any")
}
