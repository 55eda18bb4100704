//! `holm mcp`: the MCP server on standard input and output, with an embedded engine or with that of
//! a service.

mod remote;
mod stdio;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_engine::{Engine, EngineSettings};
use holm_gateway::mcp::{self, Ended, Server, Shutdown, StdioOptions};
use holm_gateway::preview::{PreviewOptions, Previews, listener};
use holm_runtime::Lifetime;
use holm_runtime::LinuxDriver;

use super::host;
use super::signals::Signals;
use crate::exit::{self, Failure};
use crate::library;
use crate::settings::{McpEngine, McpSettings};

pub(super) fn run(settings: McpSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    match settings.engine {
        McpEngine::Remote(service) => {
            host::block_on(remote::serve(*service, settings.template, settings.network))
        }
        McpEngine::Embedded(count) => {
            let mut engine = EngineSettings::default();
            engine.max_sandboxes = count.unwrap_or(engine.max_sandboxes);
            engine.network = settings.network.unwrap_or(engine.network);
            engine.library = Some(library::on_disk(host::data_dir(&settings.host)));
            let driver = host::driver(&settings.host, &engine, Lifetime::Owner, Vec::new())?;
            engine.uplink = Some(host::uplink(settings.uplink)?);
            host::block_on(serve(driver, engine, settings.template))
        }
    }
}

async fn serve(
    driver: LinuxDriver,
    engine_settings: EngineSettings,
    default_template: Option<String>,
) -> Result<u8, Failure> {
    let stopped = shutdown()?;
    let lost = Arc::new(AtomicBool::new(false));
    let (launcher, note) = (driver.ended(), Arc::clone(&lost));
    let shutdown: Shutdown = Box::pin(async move {
        tokio::select! {
            () = stopped => {}
            // Nothing can be made any more, for there is no keeper either. Who runs us starts us again.
            () = launcher => note.store(true, Ordering::Release),
        }
    });
    let engine = Engine::new(Arc::new(driver), engine_settings);
    let previews = Previews::new(engine.clone(), PreviewOptions::local(listener::on_demand()));
    let server = Arc::new(Server::new().with_previews(&previews));
    let options = StdioOptions { default_template, shutdown, server, ..StdioOptions::default() };
    let (input, output) = (stdio::Input::new(), stdio::Output::new());
    let ended = mcp::serve_stdio(engine.clone(), options, input, output).await;
    engine.shutdown().await;
    if lost.load(Ordering::Acquire) {
        return Err(Failure::new("the launcher process has ended, and all sandboxes with it")
            .hint("start holm mcp again; most clients do so by themselves or on request"));
    }
    code(ended)
}

/// Resolves at the first signal that asks for the end.
fn shutdown() -> Result<Shutdown, Failure> {
    let mut signals = Signals::catch()?;
    Ok(Box::pin(async move { signals.next().await }))
}

fn code(ended: Ended) -> Result<u8, Failure> {
    match ended {
        Ended::EndOfInput | Ended::Shutdown | Ended::OutputClosed => Ok(exit::SUCCESS),
        Ended::InputFailed(error) => {
            Err(Failure::new(format!("cannot read standard input: {error}")))
        }
    }
}
