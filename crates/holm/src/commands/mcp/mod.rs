//! `holm mcp`: the MCP server on standard input and output, with an embedded engine.

mod stdio;

use std::sync::Arc;

use holm_engine::{Engine, EngineSettings};
use holm_gateway::mcp::{self, Ended, StdioOptions};
use holm_runtime::LinuxDriver;
use tokio::signal::unix::{SignalKind, signal};

use super::host;
use crate::exit::{self, Failure};
use crate::settings::McpSettings;

pub(super) fn run(settings: McpSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    let mut engine_settings = EngineSettings::default();
    if let Some(count) = settings.max_sandboxes {
        engine_settings.max_sandboxes = count;
    }
    let mut options = host::linux_options(&settings.host);
    // What is kept ready serves the size that is asked for most: the default.
    options.blank = engine_settings.shape(None).map_err(|error| host::engine_failure(&error))?;
    let driver = LinuxDriver::start(options).map_err(|error| host::driver_failure(&error))?;
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
    let shutdown = shutdown();
    let shutdown =
        shutdown.map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    let engine = Engine::new(Arc::new(driver), engine_settings);
    let options =
        StdioOptions { default_template, shutdown: Box::pin(shutdown), ..StdioOptions::default() };
    let (input, output) = (stdio::Input::new(), stdio::Output::new());
    let ended = mcp::serve_stdio(engine.clone(), options, input, output).await;
    engine.shutdown().await;
    match ended {
        Ended::EndOfInput | Ended::Shutdown | Ended::OutputClosed => Ok(exit::SUCCESS),
        Ended::InputFailed(error) => {
            Err(Failure::new(format!("cannot read standard input: {error}")))
        }
    }
}

/// Resolves when the process is asked to end. Caught from the call on, not from the first poll.
fn shutdown() -> std::io::Result<impl Future<Output = ()> + Send> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
