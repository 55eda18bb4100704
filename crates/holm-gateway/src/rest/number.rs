//! Whole numbers that know their range: what refuses a wrong one is what the description says.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A whole number from `MIN` to `MAX`. `60.0` is one too: some clients know no other kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(pub u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Whole<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Range::<MIN, MAX>)
    }
}

struct Range<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Visitor<'_> for Range<MIN, MAX> {
    type Value = Whole<MIN, MAX>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a whole number from {MIN} to {MAX}")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        if (MIN..=MAX).contains(&value) {
            return Ok(Whole(value));
        }
        Err(E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and within 0..2^53 just before"
    )]
    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
            return self.visit_u64(value as u64);
        }
        Err(E::invalid_value(Unexpected::Float(value), &self))
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Result<u64, &str>) {
        let got = serde_json::from_str::<Whole<1, 60>>(text);
        match (got, want) {
            (Ok(number), Ok(want)) => assert_eq!(number.0, want, "{text}"),
            (Err(error), Err(part)) => {
                let error = error.to_string();
                assert!(error.contains(part) && error.contains("from 1 to 60"), "{error}");
            }
            (got, want) => panic!("{text}: {got:?} instead of {want:?}"),
        }
    }

    #[test]
    fn case_63_what_is_no_number_of_the_range_is_refused_with_the_range() {
        check("1", Ok(1));
        check("60", Ok(60));
        check("60.0", Ok(60));
        check("0", Err("`0`"));
        check("61", Err("`61`"));
        check("-1", Err("`-1`"));
        check("0.5", Err("`0.5`"));
        check("1e12", Err("1000000000000"));
        check("1e300", Err("floating"));
        check("\"60\"", Err("\"60\""));
        check("null", Err("null"));
        check("true", Err("true"));
    }
}
