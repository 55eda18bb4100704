//! A driver without a kernel: machines that count themselves, guests that are scripted.

pub mod driver;
pub mod guest;
pub mod service;

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use holm_engine::{Engine, EngineSettings, HostCapacity, LifetimeRules};
use tokio::time::Instant;

pub use driver::FakeDriver;
pub use service::Service;

/// Settings for tests: a large host, short lifetimes allowed, nothing mandatory to compare with.
pub fn settings() -> EngineSettings {
    EngineSettings {
        host: HostCapacity { cpus: 8, memory_bytes: 64 << 30 },
        lifetime: LifetimeRules { min: Duration::from_millis(1), ..LifetimeRules::EMBEDDED },
        clock,
        ..EngineSettings::default()
    }
}

/// The runtime's clock, which tests stop and wind on.
fn clock() -> Duration {
    static LONG_AGO: LazyLock<Instant> =
        LazyLock::new(|| Instant::now().checked_sub(Duration::from_secs(60)).expect("up longer"));
    Instant::now().duration_since(*LONG_AGO)
}

/// An engine over a fresh fake driver.
pub fn engine(settings: EngineSettings) -> (Engine, Arc<FakeDriver>) {
    let driver = Arc::new(FakeDriver::default());
    (Engine::new(Arc::clone(&driver) as _, settings), driver)
}

/// Waits until `done`; fails after a long while with `what`.
pub async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let wait = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let patience = Duration::from_secs(120);
    tokio::time::timeout(patience, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
