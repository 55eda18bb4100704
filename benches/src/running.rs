//! A program of ours that runs, and is ended also where a measurement fails half-way.

use std::process::{Child, Command};

/// Ended and waited for when it is dropped, unless it has ended by then.
pub struct Running(pub Child);

impl Running {
    /// Asks it to end in good order.
    pub fn ask_to_end(&self) -> std::io::Result<()> {
        Command::new("kill").arg(self.0.id().to_string()).status().map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) && self.ask_to_end().is_ok() {
            // There is an error to tell of already.
            let _ = self.0.wait();
        }
    }
}
