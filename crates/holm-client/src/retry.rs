//! What is sent again, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::RETRY_AFTER;
use jiff::fmt::rfc2822;

/// Attempts of one request at most.
pub const ATTEMPTS: u32 = 4;
/// The longest wait before another attempt. Who is to wait longer is told so instead.
pub const LONGEST: Duration = Duration::from_secs(10);
const FIRST: Duration = Duration::from_millis(100);

/// How long to wait before attempt `next` (from 2).
#[must_use]
pub fn pause(next: u32) -> Duration {
    FIRST.saturating_mul(4_u32.saturating_pow(next.saturating_sub(2))).min(LONGEST)
}

/// What `Retry-After` says: seconds, or a date.
#[must_use]
pub fn after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::parse(text).ok()?.timestamp().as_second();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(Duration::from_secs(u64::try_from(at).ok()?.saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses: Vec<u128> = (2..=6).map(|next| pause(next).as_millis()).collect();
        assert_eq!(pauses, [100, 400, 1600, 6400, 10_000]);
    }

    #[test]
    fn retry_after_in_both_forms() {
        let check = |text: &str, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().expect("a value"));
            assert_eq!(after(&headers), expected.map(Duration::from_secs), "{text}");
        };
        check("7", Some(7));
        check("Wed, 21 Oct 2015 07:28:00 GMT", Some(0));
        check("soon", None);
        check("-1", None);
        assert_eq!(after(&HeaderMap::new()), None);
    }
}
