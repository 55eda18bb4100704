//! The bridge between the guest and a Jupyter kernel: a process of its own inside the sandbox, run as the
//! user whose kernel it is, under the confinement of every command. It is this program once more
//! (`holm-guest kernel LANGUAGE`), so that nothing needs to be installed, and blocking: it has one kernel
//! and one piece of code at a time.
//!
//! It reads orders on standard input and answers on standard output, one line each (see [`lines`]). It
//! ends with its kernel when standard input does. Who kills it kills the kernel too.

mod execute;
mod kernel;
pub mod lines;
mod message;
mod outputs;
mod poll;
mod private;
pub mod spec;
mod text;
mod zmtp;

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use holm_wire::kernel::{START_MS, Status};
use lines::{Order, Said};

use kernel::Kernel;

/// Serves one kernel of a language until nobody wants it any more.
///
/// # Errors
/// When nobody reads what it says.
pub fn run(language: &str) -> std::io::Result<()> {
    // Instead of a descriptor's number.
    let _ = rustix::thread::set_name(c"holm-kernel");
    let home = std::env::var("HOME").unwrap_or_else(|_| "/tmp".to_owned());
    let found = match spec::find(&home, language) {
        Ok(found) => found,
        Err(text) => return say(&Said::Missing(text)),
    };
    let more = places(&home);
    let until = Instant::now() + Duration::from_millis(START_MS);
    let mut kernel = match Kernel::start(&found, &home, &more, until) {
        Ok(kernel) => kernel,
        Err(text) => return say(&Said::Failed(text)),
    };
    say(&Said::Ready(found.name.clone()))?;
    let mut orders = Orders::default();
    while let Some(order) = orders.next(&mut kernel) {
        let Order::Run(run) = order else { continue };
        if let Some(end) = kernel.end() {
            return say(&Said::Gone(end));
        }
        let executed = execute::execute(&mut kernel, &mut orders, &run);
        let is_over = matches!(executed.status, Status::Stuck | Status::Died);
        say(&Said::executed(executed))?;
        crate::sys::malloc::trim();
        if is_over {
            return Ok(());
        }
    }
    Ok(())
}

/// Programs keep things below the home directory; where that cannot be written, elsewhere.
fn places(home: &str) -> Vec<(&'static str, String)> {
    let probe = std::path::Path::new(home).join(format!(".holm-probe-{}", std::process::id()));
    if std::fs::create_dir(&probe).is_ok() {
        let _ = std::fs::remove_dir(&probe);
        return Vec::new();
    }
    let uid = rustix::process::geteuid().as_raw();
    [("MPLCONFIGDIR", "matplotlib"), ("IPYTHONDIR", "ipython"), ("XDG_CACHE_HOME", "cache")]
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_none())
        .map(|(name, place)| (name, format!("/tmp/.holm-{place}-{uid}")))
        .collect()
}

fn say(said: &Said) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(&said.line())?;
    out.flush()
}

/// Orders as they come.
#[derive(Debug, Default)]
pub struct Orders {
    read: Vec<u8>,
    ended: bool,
}

impl Orders {
    /// The next one; waits for it, and lets the kernel say what nobody wants to hear. None when no more
    /// will come.
    fn next(&mut self, kernel: &mut Kernel) -> Option<Order> {
        loop {
            if let Some(order) = self.take() {
                return Some(order);
            }
            if self.ended {
                return None;
            }
            let input = std::io::stdin();
            let input = input.as_fd();
            // A kernel that has ended is told of when the next code comes.
            if kernel.end().is_some() || kernel.wait(Some(input), None).besides {
                self.read();
            }
        }
    }

    /// One that has come whole.
    fn take(&mut self) -> Option<Order> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.read.drain(..=end).collect();
        Some(Order::read(&line))
    }

    /// Reads once.
    fn read(&mut self) {
        let mut buffer = vec![0; 256 << 10];
        match std::io::stdin().lock().read(&mut buffer) {
            Ok(got @ 1..) => self.read.extend_from_slice(&buffer[..got]),
            _ => self.ended = true,
        }
    }

    /// Something has come while code runs: true when it is to stop.
    fn stop(&mut self) -> bool {
        self.read();
        let mut stop = self.ended;
        while let Some(order) = self.take() {
            stop |= matches!(order, Order::Interrupt);
        }
        stop
    }
}
