//! The form of `holm doctor`; its content is this machine's.

use serde_json::Value;

use crate::snapshot::{compare, holm};

/// The types of a value, with lists by their first element.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), shape(v))).collect(),
    }
}

#[test]
fn json() {
    let output = holm(&["doctor", "--json"]).output().expect("holm starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let layers = report["layers"].as_array().expect("a list of layers");
    let missing =
        layers.iter().any(|layer| layer["mandatory"] == true && layer["enforced"] == false);
    assert_eq!(report["ok"], !missing);
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    for layer in layers {
        let mended = layer["mend"].as_str().is_some_and(|mend| !mend.is_empty());
        assert!(layer["enforced"] == true || mended, "no way to mend {layer}");
    }
    let mut names: Vec<&Value> = layers.iter().map(|layer| &layer["layer"]).collect();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a layer is there twice");

    let mut shape = shape(&report);
    // Both depend on the machine: whether the first layer and language are there.
    shape["layers"][0]["mend"] = "string or null".into();
    shape["languages"][0]["interpreter"] = "string or null".into();
    let text = serde_json::to_string_pretty(&shape).expect("a shape is JSON");
    compare("doctor-json-shape", &format!("{text}\n"));
}

#[test]
fn the_table_shows_what_the_json_tells() {
    let json = holm(&["doctor", "--json"]).output().expect("holm starts");
    let report: Value = serde_json::from_slice(&json.stdout).expect("it prints JSON");
    let table = holm(&["doctor"]).env("TERM", "xterm").output().expect("holm starts");
    let text = String::from_utf8(table.stdout).expect("a table is text");
    assert_eq!(table.status.code(), json.status.code());
    assert!(!text.contains('\x1b'), "colours without a terminal");
    for layer in report["layers"].as_array().expect("a list of layers") {
        let name = layer["layer"].as_str().expect("a name").replace('_', " ");
        let row = text.lines().find(|line| line.starts_with(&name)).expect("a row for each layer");
        let state = if layer["enforced"] == true { "yes" } else { "no" };
        assert!(row.to_lowercase().contains(state) || row.contains("MISSING"), "{row}");
    }
    assert!(text.contains(report["mode"].as_str().expect("a mode")), "{text}");
}
