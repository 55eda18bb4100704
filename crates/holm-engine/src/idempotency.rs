//! A create that is asked for twice with the same key is one create.

use std::time::Duration;

use holm_gate::EgressPolicy;
use holm_store::{Idempotency, SandboxId, SandboxState};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::measure::Measured;
use crate::sandbox::view;
use crate::{CreateSandbox, Engine, Error, ErrorKind, SandboxView};

/// Most characters of a key.
const MAX_KEY: usize = 255;
/// How often a create on another machine is looked at, and for how long.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

/// The key of `request`, with what tells it from other requests.
pub(crate) fn read(request: &CreateSandbox) -> Result<Option<Idempotency>, Error> {
    let Some(key) = &request.idempotency_key else { return Ok(None) };
    if key.is_empty() || key.len() > MAX_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::invalid(format!(
            "the idempotency key must have 1 to {MAX_KEY} visible ASCII characters"
        )));
    }
    // What was asked for, not what became of it: settings may change between two tries.
    let mut asked = json!([
        request.template,
        request.size,
        request.cpu,
        request.memory_mb,
        request.name,
        request.timeout.map(|timeout| timeout.as_secs_f64()),
        request.env,
        request.metadata,
        request.network.as_ref().map(EgressPolicy::to_json),
        request.secrets,
        request.workdir,
        request.mounts.iter().map(|mount| format!("{mount:?}")).collect::<Vec<_>>(),
    ]);
    // Only where it was asked for: a request of before such wishes existed is still the same.
    if request.auto_pause.is_some() || request.auto_resume.is_some() {
        let after = request.auto_pause.map(|after| after.as_secs_f64());
        asked = json!([asked, after, request.auto_resume]);
    }
    Ok(Some(Idempotency::new(key, asked.to_string().as_bytes())))
}

impl Engine {
    /// What the first create with the same key made, once it is made. Nothing when that failed:
    /// then this one may try.
    pub(crate) async fn made_before(&self, id: SandboxId) -> Result<Option<SandboxView>, Error> {
        let begin = Instant::now();
        loop {
            if let Some(sandbox) = self.own(&id) {
                sandbox.settled().await;
                if sandbox.state() != SandboxState::Provisioning {
                    return Ok(Some(sandbox.view()));
                }
            }
            match self.inner.store.sandbox_get(self.caller.owner(), id).await? {
                None => return Ok(None),
                Some(record) if record.state != SandboxState::Provisioning => {
                    return Ok(Some(view(&record, &Measured::default())));
                }
                // On its way into, or out of, this engine; or made by another one.
                Some(_) if begin.elapsed() < PATIENCE => sleep(PAUSE).await,
                Some(_) => {
                    let text = format!("sandbox {id}, of the same request, is still being made");
                    return Err(Error::new(ErrorKind::Unavailable, text));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_form_and_requests_a_fingerprint() {
        let with = |key: &str, name: Option<&str>| CreateSandbox {
            idempotency_key: Some(key.to_owned()),
            name: name.map(str::to_owned),
            ..CreateSandbox::default()
        };
        for bad in ["", "a b", "é", "a\n", &"x".repeat(256)] {
            assert!(read(&with(bad, None)).is_err(), "{bad:?}");
        }
        let print = |name| read(&with("k", name)).unwrap().unwrap().fingerprint;
        assert_eq!(print(Some("a")), print(Some("a")));
        assert_ne!(print(Some("a")), print(None));
        assert_eq!(read(&CreateSandbox::default()).unwrap(), None);
    }
}
