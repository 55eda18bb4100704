//! Texts that more than one resource uses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use holm_engine::{AccountId, KeyId, SandboxId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::failure::Failure;

/// Without the character that neither paths nor variables may hold.
pub const WITHOUT_NUL: &str = "^[^\\u0000]*$";

/// A place in a list, as a list has returned it.
pub const CURSOR: &str = "^-?[0-9]{1,18}\\.[0-9A-Za-z_]{1,64}$";

/// Without control characters.
pub const NAME: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Environment variables by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Variables(pub BTreeMap<String, String>);

impl JsonSchema for Variables {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Variables".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": {"type": "string", "pattern": "^[^=\\u0000]+$"},
            "additionalProperties": {"type": "string", "pattern": WITHOUT_NUL},
        })
    }
}

/// Who does something inside a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum User {
    /// The ordinary user (also where none is named, unless the template's image names one).
    Sandbox,
    /// Root of the sandbox.
    Root,
}

impl User {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Root => "root",
        }
    }
}

/// A moment as [`time`] writes it.
#[must_use]
pub fn time_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// The same where there may be none.
#[must_use]
pub fn maybe_time_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "format": "date-time"})
}

/// An id that begins with `prefix`.
#[must_use]
pub fn id_schema(prefix: &str) -> Schema {
    json_schema!({"type": "string", "pattern": format!("^{prefix}[0-9a-f]{{18}}$")})
}

/// A sandbox's id, as it is answered.
#[must_use]
pub fn sandbox_id_schema(_: &mut SchemaGenerator) -> Schema {
    id_schema(SandboxId::PREFIX)
}

/// An account's id.
#[must_use]
pub fn account_id_schema(_: &mut SchemaGenerator) -> Schema {
    id_schema(AccountId::PREFIX)
}

/// A key's id.
#[must_use]
pub fn key_id_schema(_: &mut SchemaGenerator) -> Schema {
    id_schema(KeyId::PREFIX)
}

/// The currency's units as micro-units; nothing for what is no amount above 0 and up to `most`.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "rounded, and checked to be within 0..2^53")]
pub fn micros(units: f64, most: f64) -> Option<i64> {
    let micros = (units * 1e6).round();
    (units <= most && (1.0..=9e15).contains(&micros)).then_some(micros as i64)
}

/// Permission bits from octal text.
///
/// # Errors
/// When it is something else.
pub fn mode(text: Option<&str>) -> Result<Option<u32>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let read = || match text.len() {
        3 | 4 => u32::from_str_radix(text, 8).ok(),
        _ => None,
    };
    let wrong = || Failure::invalid("`mode` must be octal permission bits, such as \"0755\"");
    read().map(Some).ok_or_else(wrong)
}
