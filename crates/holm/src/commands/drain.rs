//! `holm drain`: takes over what a service has left, and ends it.

use std::sync::Arc;

use holm_engine::{Engine, EngineSettings};
use holm_runtime::{Driver as _, Lifetime, LinuxDriver};

use super::host;
use crate::exit::{self, Failure};
use crate::output;
use crate::service::Place;
use crate::settings::DrainSettings;

pub(super) fn run(settings: &DrainSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    let mut options = host::linux_options(&settings.host);
    // Held from here on: no service can start meanwhile.
    let place = Place::hold(&options.data_dir())?;
    let engine_settings = EngineSettings { node: place.node()?, ..settings.engine.clone() };
    options.lifetime = Lifetime::Detached;
    options.blanks = 0;
    let driver = LinuxDriver::start(options).map_err(|error| host::driver_failure(&error))?;
    let left = driver.left_over().len();
    host::block_on(async {
        let store = settings.database.open(&place).await?;
        let engine = Engine::with_store(Arc::new(driver), engine_settings, Arc::clone(&store));
        engine.start().await.map_err(|error| host::engine_failure(&error))?;
        engine.shutdown().await;
        store.close().await;
        Ok(())
    })?;
    output::print(&match left {
        0 => "no sandbox was running\n".to_owned(),
        1 => "ended 1 sandbox\n".to_owned(),
        count => format!("ended {count} sandboxes\n"),
    })?;
    Ok(exit::SUCCESS)
}
