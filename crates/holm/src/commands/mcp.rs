//! `holm mcp`: the MCP server on standard input and output, with an embedded engine.

use std::sync::Arc;

use holm_engine::{Engine, EngineSettings};
use holm_runtime::LinuxDriver;
use tokio::signal::unix::{SignalKind, signal};

use super::host;
use crate::exit::{self, Failure};
use crate::settings::McpSettings;

pub(super) fn run(settings: McpSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    let options = host::linux_options(&settings.host);
    let driver = LinuxDriver::start(options).map_err(|error| host::driver_failure(&error))?;
    let mut engine_settings = EngineSettings::default();
    if let Some(template) = settings.template {
        engine_settings.default_template = template;
    }
    if let Some(count) = settings.max_sandboxes {
        engine_settings.max_sandboxes = count;
    }
    host::event_loop()?.block_on(async {
        let engine = Engine::new(Arc::new(driver), engine_settings);
        let stop =
            stop().map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
        let served = holm_gateway::mcp::serve_stdio(engine.clone(), stop).await;
        engine.shutdown().await;
        served.map_err(|error| Failure::new(format!("the connection failed: {error}")))?;
        Ok(exit::SUCCESS)
    })
}

/// Resolves when the process is asked to end. Caught from the call on, not from the first poll.
fn stop() -> std::io::Result<impl Future<Output = ()> + Send> {
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
