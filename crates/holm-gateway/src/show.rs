//! How numbers and moments are shown, whatever the face.

use std::time::Duration;

use jiff::Timestamp;

/// A moment in RFC 3339, to the second.
#[must_use]
pub fn time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A span in whole milliseconds.
#[must_use]
pub fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Micro-units as the currency's units, which is what people read.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "exact up to nine thousand million units")]
pub fn units(micros: i64) -> f64 {
    micros as f64 / 1e6
}
