//! A small judge of JSON schemas: the keywords that the tools' schemas use, and no others.

use serde_json::Value;

/// Why `value` does not fit `schema`, if so.
pub fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let rules = schema.as_object().ok_or("a schema is an object")?;
    for (keyword, rule) in rules {
        let holds = match keyword.as_str() {
            "type" => is_type(rule, value),
            "enum" => rule.as_array().is_some_and(|allowed| allowed.contains(value)),
            "minimum" => value.as_f64() >= rule.as_f64(),
            "maximum" => value.as_f64() <= rule.as_f64(),
            "required" => strings(rule).all(|name| value.get(name).is_some()),
            "anyOf" => rule
                .as_array()
                .is_some_and(|forms| forms.iter().any(|form| fits(form, value).is_ok())),
            "properties" => {
                for (name, schema) in rule.as_object().ok_or("properties is an object")? {
                    if let Some(inner) = value.get(name) {
                        fits(schema, inner).map_err(|error| format!("{name}: {error}"))?;
                    }
                }
                true
            }
            "additionalProperties" => additional(rules, rule, value)?,
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    fits(rule, item)?;
                }
                true
            }
            "description" | "default" | "title" => true,
            other => return Err(format!("unknown keyword {other}")),
        };
        if !holds {
            return Err(format!("{value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn additional(
    rules: &serde_json::Map<String, Value>,
    rule: &Value,
    value: &Value,
) -> Result<bool, String> {
    let named = rules.get("properties").and_then(Value::as_object);
    for (name, inner) in value.as_object().into_iter().flatten() {
        if named.is_some_and(|named| named.contains_key(name)) {
            continue;
        }
        match rule {
            Value::Bool(allowed) => {
                if !allowed {
                    return Ok(false);
                }
            }
            schema => fits(schema, inner)?,
        }
    }
    Ok(true)
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn is_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    };
    rule.as_str().is_some_and(is) || strings(rule).any(is)
}
