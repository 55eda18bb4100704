//! `holm run`: one command in a sandbox of its own.

mod follow;
mod signals;
mod stdio;
mod terminal;

use std::time::Duration;

use holm_engine::{CreateSandbox, Engine, EngineSettings, LifetimeRules, SandboxId};
use holm_runtime::{LinuxDriver, MountRo};
use holm_wire::client::{ClientError, GuestClient};
use holm_wire::connect::Code;
use holm_wire::process::{ProcessConfig, Pty, StartRequest};

use super::host;
use crate::exit::{self, Failure};
use crate::library;
use crate::settings::RunSettings;
use signals::Signals;

/// The sandbox lives as long as this process; the ceiling of leased sandboxes does not apply to
/// somebody's own terminal.
const LIFETIME: Duration = Duration::from_secs(366 * 24 * 3600);

pub(super) fn run(settings: RunSettings) -> Result<u8, Failure> {
    in_sandbox(settings).map_err(|failure| match failure.code {
        exit::USAGE => failure,
        exit::FAILURE => failure.code(exit::HOLM_FAILED),
        _ => failure,
    })
}

fn in_sandbox(settings: RunSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, false)?;
    let mut options = host::linux_options(&settings.host);
    let lifetime = LifetimeRules { default: LIFETIME, min: Duration::ZERO, max: LIFETIME };
    let library = Some(library::on_disk(options.data_dir()));
    let engine_settings = EngineSettings { lifetime, library, ..EngineSettings::default() };
    // The launcher begins with the one sandbox while we get ready to ask for it. One that shows
    // directories of the host, or that stands on a template's layers, is not like any other.
    let of_host = engine_settings.is_of_host(settings.template.as_deref());
    options.blanks = usize::from(settings.mounts.is_empty() && of_host);
    options.refill = false;
    let size = settings.size.as_deref();
    options.blank = engine_settings.shape(size).map_err(|error| host::engine_failure(&error))?;
    options.forked_with = Some(crate::GUEST);
    // The launcher starts first and gets ready while the rest is set up here.
    let launching = LinuxDriver::launch(options).map_err(|error| host::driver_failure(&error))?;
    host::block_on(async {
        // Before anything is made that would have to be removed again.
        let mut signals = Signals::catch()
            .map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
        let driver = launching.ready().map_err(|error| host::driver_failure(&error))?;
        // Its thread comes after the launcher, which was forked from one.
        let uplink = Some(host::uplink(settings.uplink.clone())?);
        let engine_settings = EngineSettings { uplink, ..engine_settings };
        let engine = Engine::new(std::sync::Arc::new(driver), engine_settings);
        let result = create_and_follow(&engine, &settings, &mut signals).await;
        // The launcher frees the disk and removes its own directories after we are gone.
        if !engine.end_all().await {
            engine.shutdown().await;
        }
        result
    })
}

async fn create_and_follow(
    engine: &Engine,
    settings: &RunSettings,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let pty = terminal::wanted();
    let workdir = match &settings.workdir {
        Some(workdir) => workdir.clone(),
        None => {
            let workdir = engine.template_workdir(settings.template.as_deref()).await;
            workdir.map_err(|error| host::engine_failure(&error))?
        }
    };
    let command = command(settings, workdir, pty);
    let (first, starting) = follow::start(command, settings.user.clone());
    let create = engine.sandbox_create_with(sandbox(settings), first);
    let sandbox = tokio::select! {
        created = create => created.map_err(|error| host::engine_failure(&error))?,
        told = signals.forwarded() => return Ok(exit::SIGNAL_BASE + told.number()),
    };
    let guest = engine.guest(&sandbox.id).await.map_err(|error| host::engine_failure(&error))?;
    let work =
        follow::Work { guest: &guest, pty, timeout: settings.timeout, begin: starting.begin() };
    let verdict = match work.started(starting).await? {
        Ok(stream) => follow::follow(work, stream, signals).await?,
        Err(error) => follow::Verdict::Failed(error),
    };
    match verdict {
        follow::Verdict::Code(code) => Ok(code),
        follow::Verdict::Failed(ClientError::Guest(refused)) => {
            Err(refusal(&settings.argv[0], &refused))
        }
        follow::Verdict::Failed(error) => Err(lost(engine, &sandbox.id, &error).await),
    }
}

fn sandbox(settings: &RunSettings) -> CreateSandbox {
    let mounts = settings.mounts.iter();
    CreateSandbox {
        template: settings.template.clone(),
        size: settings.size.clone(),
        network: settings.network.clone(),
        workdir: settings.workdir.clone(),
        mounts: mounts
            .map(|(host, inside)| MountRo { host: host.clone(), inside: inside.clone() })
            .collect(),
        ..CreateSandbox::default()
    }
}

fn command(settings: &RunSettings, workdir: String, pty: bool) -> StartRequest {
    let mut envs = settings.env.clone();
    if pty && let Some(term) = &settings.term {
        envs.entry("TERM".to_owned()).or_insert_with(|| term.clone());
    }
    StartRequest {
        process: ProcessConfig {
            cmd: settings.argv[0].clone(),
            args: settings.argv[1..].to_vec(),
            envs,
            cwd: Some(workdir),
        },
        pty: pty.then(|| Pty { size: terminal::size() }),
        tag: None,
        stdin: Some(true),
    }
}

/// The guest did not run the command. What is the command's own fault gets a shell's exit code.
fn refusal(program: &str, refused: &holm_wire::connect::Error) -> Failure {
    if refused.code == Code::InvalidArgument {
        return Failure::usage(refused.message.clone());
    }
    let failure = Failure::new(format!("{program}: {}", refused.message));
    match refused.code {
        Code::NotFound => failure.code(exit::NOT_FOUND),
        Code::PermissionDenied => failure.code(exit::NOT_EXECUTABLE),
        _ => failure,
    }
}

/// The sandbox stopped answering; the engine may know why.
async fn lost(engine: &Engine, id: &SandboxId, error: &ClientError) -> Failure {
    tracing::debug!(%error, "the guest is gone");
    match engine.sandbox_get(id).await {
        Ok(view) => match view.ended {
            Some(ended) => Failure::new(format!("the sandbox was lost: {}", ended.reason.text())),
            None => Failure::new(format!("the sandbox was lost: {error}")),
        },
        Err(gone) => Failure::new(format!("the sandbox was lost: {}", gone.public)),
    }
}

/// The guest of the running command, for the parts that feed and signal it.
#[derive(Debug, Clone)]
struct Target {
    guest: GuestClient,
    pid: u32,
}
