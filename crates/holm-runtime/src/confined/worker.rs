//! The outer end: starts a worker, feeds it, takes its report.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::{ARGUMENT, Order};
use crate::driver::DriverError;
use crate::failure::{Attempt as _, Failure};

/// Longest report that is read.
const MAX_REPORT: u64 = 4 << 20;

/// A worker. It ends with the thread that started it, which therefore must be the one that feeds it
/// and waits for it. When it is dropped, it is killed.
#[derive(Debug)]
pub struct Worker {
    warden: Child,
    input: Option<ChildStdin>,
}

impl Worker {
    /// Starts one; `program` is usually `/proc/self/exe`.
    ///
    /// # Errors
    /// When it cannot be started. That it cannot be confined is in its report.
    pub fn start(program: &Path, order: &Order) -> Result<Self, DriverError> {
        let mut warden = Command::new(program)
            .arg(ARGUMENT)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .current_dir("/")
            .spawn()
            .tried("start a confined worker")?;
        let input = warden.stdin.take();
        let mut worker = Self { warden, input };
        let order = serde_json::to_vec(order).tried("write an order")?;
        let length = u32::try_from(order.len()).tried("write an order")?;
        let sent = worker.write_all(&length.to_le_bytes()).and_then(|()| worker.write_all(&order));
        // One that ended already has said why.
        match sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::internal(format!("send an order: {error}")).into())
            }
            _ => Ok(worker),
        }
    }

    /// Ends the input and waits for the report.
    ///
    /// # Errors
    /// When the worker could not be confined, or ended without a report.
    pub fn finish(mut self) -> Result<String, DriverError> {
        drop(self.input.take());
        let mut text = String::new();
        if let Some(output) = self.warden.stdout.take() {
            output.take(MAX_REPORT).read_to_string(&mut text).tried("read a worker's report")?;
        }
        let status = self.warden.wait().tried("wait for a worker")?;
        match serde_json::from_str::<Result<String, Failure>>(&text) {
            Ok(report) => Ok(report?),
            Err(_) => {
                let text = format!("a confined worker ended without a report ({status})");
                Err(Failure::internal(text).into())
            }
        }
    }
}

impl Write for Worker {
    /// A worker that has failed takes no more: `BrokenPipe`, and [`Worker::finish`] says why.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.input {
            Some(input) => input.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both do nothing for one that was waited for.
        let _ = self.warden.kill();
        let _ = self.warden.wait();
    }
}
