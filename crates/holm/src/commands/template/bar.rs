//! How far an import is, in one line of the terminal that is drawn again and again.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use holm_template::import::Progress;

use super::view::size;
use crate::output;

/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar itself.
const WIDTH: u64 = 24;

/// A line, where somebody can see it.
pub(super) struct Bar(Option<RefCell<State>>);

struct State {
    layer: String,
    total: Option<u64>,
    done: u64,
    drawn: Instant,
}

impl Bar {
    pub(super) fn new(shown: bool) -> Self {
        let state = State { layer: String::new(), total: None, done: 0, drawn: Instant::now() };
        Self(shown.then(|| RefCell::new(state)))
    }
}

impl Progress for Bar {
    fn layer(&self, index: usize, count: usize, bytes: Option<u64>) {
        let Some(state) = &self.0 else { return };
        let mut state = state.borrow_mut();
        state.layer = format!("layer {}/{count}", index + 1);
        (state.total, state.done) = (bytes, 0);
        draw(&mut state);
    }

    fn advance(&self, bytes: u64) {
        let Some(state) = &self.0 else { return };
        let mut state = state.borrow_mut();
        state.done += bytes;
        if state.drawn.elapsed() >= EVERY {
            draw(&mut state);
        }
    }

    fn shared(&self, index: usize, count: usize) {
        self.layer(index, count, Some(0));
    }
}

fn draw(state: &mut State) {
    output::stderr(format!("\r\x1b[K{}", line(&state.layer, state.done, state.total)).as_bytes());
    state.drawn = Instant::now();
}

fn line(layer: &str, done: u64, total: Option<u64>) -> String {
    match total {
        // It was there already.
        Some(0) => format!("{layer}  shared"),
        Some(total) => {
            let filled = usize::try_from(WIDTH * done.min(total) / total).unwrap_or(0);
            let bar: String = (0..usize::try_from(WIDTH).unwrap_or(0))
                .map(|at| if at < filled { '#' } else { '.' })
                .collect();
            format!("{layer}  [{bar}]  {} of {}", size(done.min(total)), size(total))
        }
        None => format!("{layer}  {}", size(done)),
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.0.is_some() {
            output::stderr(b"\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        for (done, total, want) in [
            (0, Some(0), "layer 1/2  shared"),
            (0, Some(2_000_000), "layer 1/2  [........................]  0 B of 2.0 MB"),
            (1_000_000, Some(2_000_000), "layer 1/2  [############............]  1.0 MB of 2.0 MB"),
            (9_000_000, Some(2_000_000), "layer 1/2  [########################]  2.0 MB of 2.0 MB"),
            (1_500, None, "layer 1/2  1.5 kB"),
        ] {
            assert_eq!(line("layer 1/2", done, total), want);
        }
    }
}
