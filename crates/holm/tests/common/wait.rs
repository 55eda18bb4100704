//! Waiting for a condition, with a guard against hanging.

use std::thread;
use std::time::{Duration, Instant};

use super::mcp::GUARD;

/// Waits until `ready` gives a value; panics with `what` when the general guard has passed.
pub fn until<T>(what: &str, ready: impl FnMut() -> Option<T>) -> T {
    until_within(GUARD, what, ready)
}

/// Waits until `ready` gives a value, at most for `guard`, which is a hang guard and no bound.
pub fn until_within<T>(guard: Duration, what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < guard, "still waiting after {guard:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
