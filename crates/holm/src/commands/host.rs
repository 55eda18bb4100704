//! What commands with an embedded engine share: the driver's options, the log, the runtime, and
//! engine errors as failures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holm_engine::{EngineSettings, Error, ErrorKind, Uplink, UplinkOptions};
use holm_runtime::{DriverError, DriverErrorKind, Layer, Lifetime, LinuxDriver, LinuxOptions};
use tracing_subscriber::EnvFilter;

use crate::exit::{self, Failure};
use crate::settings::{HostSettings, LogFormat};

/// The driver's options on this host. The launcher is this very file, also after it was replaced
/// on disk by a newer version.
pub(super) fn linux_options(settings: &HostSettings) -> LinuxOptions {
    let mut options = LinuxOptions::new(Path::new("/proc/self/exe"));
    options.data_dir.clone_from(&settings.data_dir);
    options.runtime_dir.clone_from(&settings.runtime_dir);
    options
}

/// The data directory, the default filled in.
pub(crate) fn data_dir(settings: &HostSettings) -> PathBuf {
    linux_options(settings).data_dir()
}

/// The driver of an engine that lasts. What it keeps ready serves the size that is asked for most:
/// the default. Without the demanded layers nothing runs.
pub(super) fn driver(
    settings: &HostSettings,
    engine: &EngineSettings,
    lifetime: Lifetime,
    demanded: Vec<Layer>,
) -> Result<LinuxDriver, Failure> {
    let mut options = linux_options(settings);
    options.lifetime = lifetime;
    options.demanded = demanded;
    options.blank = engine.shape(None).map_err(|error| engine_failure(&error))?;
    LinuxDriver::start(options).map_err(|error| driver_failure(&error))
}

/// Where gates of sandboxes lead to.
pub(super) fn uplink(options: UplinkOptions) -> Result<Arc<Uplink>, Failure> {
    Uplink::new(options).map_err(|error| Failure::new(error.to_string()))
}

/// Starts the log, on standard error.
pub(crate) fn start_log(settings: &HostSettings, colours: bool) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&settings.log).map_err(|error| {
        Failure::usage(format!("HOLM_LOG: {error}"))
            .hint("use error, warn, info, debug, trace, or a list such as info,holm_engine=debug")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.log_format {
        LogFormat::Text => log.with_ansi(colours).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(format!("cannot start the log: {error}")))
}

/// Runs a command's work on an event loop: one thread, because the work is done by other processes.
/// What still waits in a thread at its end, such as a read of standard input, is left behind.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let event_loop = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))?;
    let result = event_loop.block_on(work);
    event_loop.shutdown_background();
    result
}

/// A driver that did not start, with what mends it.
pub(super) fn driver_failure(error: &DriverError) -> Failure {
    tracing::debug!(internal = %error.internal, "the driver failed");
    let failure = Failure::new(error.message.clone());
    match error.kind {
        DriverErrorKind::IsolationUnavailable => {
            failure.hint("run `holm doctor`; it says how to mend it")
        }
        DriverErrorKind::Internal | DriverErrorKind::LauncherGone => failure
            .hint("set HOLM_LOG=debug to see the step that failed; `holm doctor` checks the host"),
        // At a terminal the path is no secret, and is what has to be looked at.
        DriverErrorKind::UnsafeDirectory => Failure::new(error.internal.clone()),
        DriverErrorKind::HostExhausted
        | DriverErrorKind::UnknownTemplate
        | DriverErrorKind::BadMount
        | DriverErrorKind::Unkeepable
        | DriverErrorKind::Unsupported
        | DriverErrorKind::InUse => failure,
    }
}

/// An engine error as a failure. Suggestions that name MCP tools make no sense on the command
/// line and are replaced.
pub(crate) fn engine_failure(error: &Error) -> Failure {
    if let Some(internal) = &error.internal {
        tracing::debug!(%internal, "the engine failed");
    }
    let failure = Failure::new(error.public.clone());
    match error.kind {
        ErrorKind::IsolationUnavailable => {
            failure.hint("run `holm doctor`; it says how to mend it")
        }
        ErrorKind::TemplateUnknown => {
            failure.code(exit::USAGE).hint("`holm template import` makes one of an image")
        }
        ErrorKind::InvalidArgument => failure.code(exit::USAGE).hint("see `holm --help`"),
        ErrorKind::Internal | ErrorKind::Unavailable => {
            failure.hint("set HOLM_LOG=debug to see the step that failed")
        }
        _ => failure,
    }
}
