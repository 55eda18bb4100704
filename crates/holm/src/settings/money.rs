//! Amounts of money as people write them. Inside they are millionths of the currency's unit.

const UNIT: i64 = 1_000_000;
const DECIMALS: usize = 6;

/// Reads `10` or `2.50`; nothing where it is no such number, or too precise.
#[must_use]
pub fn read(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > DECIMALS {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let part: i64 = format!("{part:0<DECIMALS$}").parse().ok()?;
    whole.checked_mul(UNIT)?.checked_add(part)
}

/// Shows an amount with two decimals at least.
#[must_use]
pub fn show(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let unit = UNIT.unsigned_abs();
    let part = format!("{:06}", micros % unit);
    let part = part.trim_end_matches('0');
    format!("{sign}{}.{part:0<2}", micros / unit)
}

/// An amount in the currency's units, as the service's REST has it.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "exact up to nine thousand million units")]
pub fn in_units(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// The reverse of [`in_units`].
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "rounded; beyond the ends it is the end")]
pub fn of_units(units: f64) -> i64 {
    (units * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let check = |text: &str, micros: i64, shown: &str| {
            assert_eq!(read(text), Some(micros), "{text}");
            assert_eq!(show(micros), shown, "{text}");
            assert_eq!(of_units(in_units(micros)), micros, "{text}");
        };
        check("10", 10_000_000, "10.00");
        check("2.50", 2_500_000, "2.50");
        check("0.000001", 1, "0.000001");
        check("007.1", 7_100_000, "7.10");
        check("999999999.999999", 999_999_999_999_999, "999999999.999999");
        assert_eq!(show(-1_500_000), "-1.50");
        for wrong in ["", ".", "1.", ".5", "-1", "+1", "1,5", "1e3", "0.0000001", "9999999999999"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
