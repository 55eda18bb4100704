//! The engine of a service, for administering it beside or without the service itself: it uses the
//! same database, and makes no sandboxes.
//!
//! Both databases take several processes at once, and nothing that the service decides by is
//! cached, so what is done here counts for it at once.

use std::sync::Arc;

use holm_engine::{Engine, EngineSettings, Store};
use holm_runtime::{
    BoxFuture, Driver, DriverError, DriverErrorKind, Enforcement, Machine, SandboxSpec,
};

use super::Place;
use crate::commands::{data_dir, event_loop, start_log};
use crate::exit::Failure;
use crate::settings::AdminSettings;

/// Makes no sandboxes.
#[derive(Debug)]
struct NoSandboxes(Enforcement);

impl Driver for NoSandboxes {
    fn create(&self, _: SandboxSpec) -> BoxFuture<'_, Result<Box<dyn Machine>, DriverError>> {
        Box::pin(std::future::ready(Err(DriverError {
            kind: DriverErrorKind::HostExhausted,
            message: "this process administers a service and makes no sandboxes".to_owned(),
            internal: "an engine for administration was asked for a sandbox".to_owned(),
        })))
    }

    fn enforcement(&self) -> &Enforcement {
        &self.0
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs `work` with the operator's engine on a service's database, and waits until what it left to
/// be written is written.
///
/// # Errors
/// When the database cannot be opened; what `work` says.
pub fn administer<T>(
    settings: &AdminSettings,
    work: impl AsyncFnOnce(&Engine) -> Result<T, Failure>,
) -> Result<T, Failure> {
    start_log(&settings.host, false)?;
    let place = Place::open(&data_dir(&settings.host))?;
    let event_loop = event_loop()?;
    event_loop.block_on(async {
        let store: Arc<dyn Store> = settings.database.open(&place).await?;
        let engine_settings =
            EngineSettings { keys: Some(place.keys()?), ..EngineSettings::service() };
        let driver =
            NoSandboxes(Enforcement { mode: "administration".to_owned(), layers: Vec::new() });
        let engine = Engine::with_store(Arc::new(driver), engine_settings, Arc::clone(&store));
        let result = work(&engine).await;
        engine.shutdown().await;
        store.close().await;
        result
    })
}
