//! `holm mcp`: the MCP server on standard input and output, with an embedded engine.

mod stdio;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_engine::{Engine, EngineSettings};
use holm_gateway::mcp::{self, Ended, StdioOptions};
use holm_runtime::Lifetime;
use holm_runtime::LinuxDriver;

use super::host;
use super::signals::Signals;
use crate::exit::{self, Failure};
use crate::settings::McpSettings;

pub(super) fn run(settings: McpSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    let mut engine_settings = EngineSettings::default();
    if let Some(count) = settings.max_sandboxes {
        engine_settings.max_sandboxes = count;
    }
    let driver = host::driver(&settings.host, &engine_settings, Lifetime::Embedded)?;
    let event_loop = host::event_loop()?;
    let result = event_loop.block_on(serve(driver, engine_settings, settings.template));
    // A read of standard input that waits in a thread cannot be stopped, and nobody waits for it.
    event_loop.shutdown_background();
    result
}

async fn serve(
    driver: LinuxDriver,
    engine_settings: EngineSettings,
    default_template: Option<String>,
) -> Result<u8, Failure> {
    let mut signals = Signals::catch()?;
    let lost = Arc::new(AtomicBool::new(false));
    let (launcher, note) = (driver.ended(), Arc::clone(&lost));
    let shutdown = async move {
        tokio::select! {
            () = signals.next() => {}
            // Nothing can be made any more. Who runs us starts us again.
            () = launcher => note.store(true, Ordering::Release),
        }
    };
    let engine = Engine::new(Arc::new(driver), engine_settings);
    let options =
        StdioOptions { default_template, shutdown: Box::pin(shutdown), ..StdioOptions::default() };
    let (input, output) = (stdio::Input::new(), stdio::Output::new());
    let ended = mcp::serve_stdio(engine.clone(), options, input, output).await;
    engine.shutdown().await;
    if lost.load(Ordering::Acquire) {
        return Err(Failure::new("the launcher process has ended, and all sandboxes with it")
            .hint("start holm mcp again; most clients do so by themselves or on request"));
    }
    match ended {
        Ended::EndOfInput | Ended::Shutdown | Ended::OutputClosed => Ok(exit::SUCCESS),
        Ended::InputFailed(error) => {
            Err(Failure::new(format!("cannot read standard input: {error}")))
        }
    }
}
