//! How types are described: JSON Schema 2020-12, as OpenAPI 3.1 takes it.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Collects the named types of one document, as they are read.
#[must_use]
pub fn of_requests() -> SchemaGenerator {
    settings().for_deserialize().into_generator()
}

/// Collects the named types of one document, as they are written: what is always there is
/// required.
#[must_use]
pub fn of_answers() -> SchemaGenerator {
    settings().for_serialize().into_generator()
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    })
}

/// How `T` is described, with its named parts left to `generator`.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    tidy(generator.subschema_for::<T>().to_value())
}

/// The properties of `T`, and which of them must be there.
#[must_use]
pub fn properties<T: JsonSchema>(
    generator: &mut SchemaGenerator,
) -> (Map<String, Value>, Vec<String>) {
    let mut schema = tidy(Schema::to_value(T::json_schema(generator)));
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let Value::Object(properties) = schema["properties"].take() else {
        return (Map::new(), required);
    };
    (properties, required)
}

/// Without what says nothing: defaults of null, and number formats of this language.
#[must_use]
pub fn tidy(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(map) => {
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            let format = map.get("format").and_then(Value::as_str).unwrap_or_default();
            if ["uint", "int"].iter().any(|kind| format.starts_with(kind)) || format == "double" {
                map.remove("format");
            }
            let tidied = std::mem::take(map).into_iter().map(|(name, value)| (name, tidy(value)));
            *map = tidied.collect();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = tidy(item.take())),
        _ => {}
    }
    schema
}

/// The same for a value that cannot be null, such as one in a query.
#[must_use]
pub fn without_null(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else { return schema };
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(forms)) = map.get_mut("anyOf") {
        forms.retain(|form| form["type"] != "null");
        if let [only] = forms.as_slice() {
            let only = only.as_object().cloned().unwrap_or_default();
            map.remove("anyOf");
            map.extend(only);
        }
    }
    schema
}
