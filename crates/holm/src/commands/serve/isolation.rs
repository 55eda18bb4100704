//! Which layers of isolation the service demands, and what it says where the host lacks one.

use std::collections::BTreeMap;

use holm_engine::EngineSettings;
use holm_runtime::{Driver as _, Layer, LayerState, Lifetime, LinuxDriver};

use super::host;
use crate::exit::Failure;
use crate::settings::ServeSettings;

/// The driver, where the host gives every layer that the operator did not except.
pub(super) fn driver(
    settings: &ServeSettings,
    engine: &EngineSettings,
) -> Result<LinuxDriver, Failure> {
    let allowed = &settings.allow_missing;
    let demanded = Layer::EXCUSABLE.into_iter().filter(|layer| !allowed.contains(layer)).collect();
    let driver = host::driver(&settings.host, engine, Lifetime::Detached, demanded)?;
    let lacking = driver.lacking();
    if !lacking.is_empty() {
        // What an earlier service left goes on, as with every other end.
        host::block_on(async {
            driver.leave().await;
            Ok(())
        })?;
        return Err(refusal(&lacking, allowed));
    }
    if !allowed.is_empty() {
        tracing::warn!(layers = list(allowed), "sandboxes may lack layers of isolation");
    }
    Ok(driver)
}

fn list<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> String {
    layers.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What is missing, its mends, each once, and the exception that would let the service start.
fn refusal(lacking: &[LayerState], allowed: &[Layer]) -> Failure {
    let mut mends = BTreeMap::<&str, Vec<Layer>>::new();
    for row in lacking {
        mends.entry(row.mend.as_deref().unwrap_or_default()).or_default().push(row.layer);
    }
    let mends: Vec<String> =
        mends.into_iter().map(|(mend, layers)| format!("{}: {mend}", list(&layers))).collect();
    let is_lacking = |layer: &Layer| lacking.iter().any(|row| row.layer == *layer);
    let exception = Layer::EXCUSABLE.into_iter();
    let exception: Vec<Layer> =
        exception.filter(|layer| allowed.contains(layer) || is_lacking(layer)).collect();
    Failure::new(format!(
        "this host does not give layers of isolation that a service needs: {}",
        list(lacking.iter().map(|row| &row.layer))
    ))
    .hint(format!(
        "{} To go on without: --allow-missing {}",
        mends.join(" "),
        list(&exception)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_each_mend_once_and_the_whole_exception() {
        let row = |layer, mend: &str| LayerState {
            layer,
            enforced: false,
            mandatory: false,
            by: String::new(),
            mend: Some(mend.to_owned()),
        };
        let lacking = [
            row(Layer::Landlock, "Use Linux 5.19."),
            row(Layer::MemoryLimit, "Run as root."),
            row(Layer::CpuLimit, "Run as root."),
        ];
        let failure = refusal(&lacking, &[Layer::OwnIdRange]);
        assert!(failure.message.ends_with(": landlock,memory_limit,cpu_limit"), "{failure:?}");
        assert_eq!(
            failure.hint.as_deref(),
            Some(
                "memory_limit,cpu_limit: Run as root. landlock: Use Linux 5.19. To go on without: \
                 --allow-missing own_id_range,landlock,memory_limit,cpu_limit"
            )
        );
    }
}
