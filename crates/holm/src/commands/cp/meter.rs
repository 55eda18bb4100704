//! How much was copied, in one line of the terminal that is drawn again and again.

use std::time::{Duration, Instant};

use crate::commands::template::size;
use crate::output;

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// The line, where somebody can see it. It goes with this.
pub(super) struct Meter {
    shown: bool,
    bytes: u64,
    drawn: Option<Instant>,
}

impl Meter {
    pub(super) fn new(shown: bool) -> Self {
        Self { shown, bytes: 0, drawn: None }
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.shown && self.drawn.is_none_or(|drawn| drawn.elapsed() >= EVERY) {
            output::stderr(format!("\r\x1b[K{}", size(self.bytes)).as_bytes());
            self.drawn = Some(Instant::now());
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            output::stderr(b"\r\x1b[K");
        }
    }
}
