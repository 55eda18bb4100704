//! `holm serve`: the service over HTTP, with an embedded engine.

mod announce;
mod isolation;
mod tls;

use std::io::{self, IsTerminal as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use holm_engine::{Engine, EngineSettings, UplinkOptions};
use holm_gateway::http::origin::Origins;
use holm_gateway::http::trace::Collect;
use holm_gateway::http::{Access, Door, KeyAccess};
use holm_gateway::mcp::Server;
use holm_gateway::mcp::http::sessions::SessionRules;
use holm_gateway::preview::site::{Base, Where};
use holm_gateway::preview::{PreviewOptions, Previews};
use holm_gateway::site::{Site, SiteOptions};
use holm_runtime::{Hook, LinuxDriver};
use tokio::sync::oneshot;

use super::host;
use super::signals::Signals;
use crate::cli::OnStop;
use crate::exit::{self, Failure};
use crate::library;
use crate::output;
use crate::service::{FirstKey, Place};
use crate::settings::{Auth, ServeSettings};

/// What is there before the event loop.
struct Ground {
    place: Place,
    secret_is_new: bool,
    driver: LinuxDriver,
    engine_settings: EngineSettings,
    listener: TcpListener,
    apart: Option<TcpListener>,
    /// What runs the operator's program, where there is one.
    hook: Option<Hook>,
}

pub(super) fn run(settings: ServeSettings) -> Result<u8, Failure> {
    host::start_log(&settings.host, settings.log_colours)?;
    // First, so that a port in use is said before anything is made.
    let bind = |at: SocketAddr| listen(at).map_err(|error| not_listening(at, &error));
    let listener = bind(settings.address)?;
    let apart = settings.previews.listen.map(bind).transpose()?;
    // Before there is a thread.
    let hook = settings.previews.acme.as_ref().map(|acme| Hook::start(&acme.hook)).transpose();
    let hook = hook.map_err(|error| {
        Failure::new(format!("the process that runs hooks cannot be started: {error}"))
    })?;
    let place = Place::hold(&host::data_dir(&settings.host))?;
    let secret_is_new = !place.has_secret();
    let engine_settings = EngineSettings {
        library: Some(library::on_disk(host::data_dir(&settings.host))),
        node: place.node()?,
        keys: Some(place.keys()?),
        sealer: Some(place.sealer()?),
        webhooks: settings.webhooks.names(),
        ..settings.engine.clone()
    };
    // Before the driver: the first template trusts it already.
    let ca = Arc::new(place.authority()?);
    let engine_settings =
        EngineSettings { authority: Some(ca.certificate_pem().into()), ..engine_settings };
    let ca = Some(ca);
    let driver = isolation::driver(&settings, &engine_settings)?;
    let uplink = Some(host::uplink(UplinkOptions { ca, ..settings.uplink.clone() })?);
    let engine_settings = EngineSettings { uplink, ..engine_settings };
    let ground = Ground { place, secret_is_new, driver, engine_settings, listener, apart, hook };
    host::block_on(serve(ground, settings))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn not_listening(at: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::new(format!("cannot listen at {at}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.hint("choose another one with --port; 0 takes any"),
        io::ErrorKind::PermissionDenied => failure.hint("ports below 1024 need more rights"),
        _ => failure,
    }
}

fn accepting(
    listener: TcpListener,
    at: SocketAddr,
) -> Result<(SocketAddr, tokio::net::TcpListener), Failure> {
    let listening = listener.local_addr().and_then(|address| {
        tokio::net::TcpListener::from_std(listener).map(|listener| (address, listener))
    });
    listening.map_err(|error| not_listening(at, &error))
}

async fn serve(ground: Ground, settings: ServeSettings) -> Result<u8, Failure> {
    let Ground { place, secret_is_new, driver, engine_settings, listener, apart, hook } = ground;
    let mut signals = Signals::catch()?;
    let (address, listener) = accepting(listener, settings.address)?;
    let apart = match (apart, settings.previews.listen) {
        (Some(listener), Some(at)) => Some(accepting(listener, at)?),
        _ => None,
    };
    let certificates = tls::Certificates::new(&settings, hook, &place)?;
    let store = settings.database.open(&place).await?;
    let driver = Arc::new(driver);
    let node = engine_settings.node.to_string();
    let engine = Engine::with_store(Arc::clone(&driver) as _, engine_settings, Arc::clone(&store));
    engine.start().await.map_err(|error| host::engine_failure(&error))?;
    if let Some(mend) = engine.network_missing() {
        tracing::warn!("sandboxes have no network: this host gives no egress gate. {mend}");
    }
    let first_key = match settings.auth {
        Auth::Keys => FirstKey::ensure(&engine, &place, secret_is_new).await?,
        Auth::Token(..) | Auth::None => FirstKey { file: None, made: None },
    };
    let traces = settings.traces.as_ref().map(|traces| traces.start(&node)).transpose()?;
    let origins = Origins::new(address, settings.allowed_origins.clone());
    let door = Door::new(origins, access(&settings, &engine));
    let shown_at = apart.as_ref().map_or(address, |(address, _)| *address);
    let previews = previews(&settings, &engine, shown_at);
    let site = Site::new(SiteOptions {
        default_template: Some(settings.template.clone()),
        sessions: SessionRules {
            idle: settings.sessions_idle,
            limit: settings.sessions_max,
            each: settings.sessions_per_account,
        },
        keep_alive: settings.keep_alive,
        server: Server::new().progress_within(settings.keep_alive),
        traces: traces.clone().map(|traces| traces as Arc<dyn Collect>),
        previews,
        tls: certificates.tls,
        apart_tls: certificates.apart,
        ..SiteOptions::new(engine.clone(), door)
    });
    let acme = certificates.acme.map(|acme| tokio::spawn(acme.keep()));
    let webhooks = settings.webhooks.start(&engine)?;
    warn_of(&settings.auth);
    let person = io::stdout().is_terminal();
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    output::print(&announce::text((scheme, address), &settings.auth, &first_key, person))?;
    drop(first_key);
    let database = settings.database.kind();
    match &apart {
        Some((previews, _)) => tracing::info!(%address, %previews, database, "serving"),
        None => tracing::info!(%address, database, "serving"),
    }

    let (stop, stopped) = oneshot::channel::<()>();
    let ending = async {
        let stopped = async {
            // An error means the same: whoever could send it has gone.
            let _ = stopped.await;
        };
        match apart {
            Some((_, apart)) => site.serve_apart(listener, apart, stopped).await,
            None => site.serve(listener, stopped).await,
        }
        if let Some(acme) = acme {
            acme.abort();
        }
        match settings.on_stop {
            OnStop::Keep => engine.leave().await,
            OnStop::End => engine.shutdown().await,
        }
        // After the last of what they tell.
        if let Some(webhooks) = webhooks {
            webhooks.stop().await;
        }
        if let Some(traces) = traces {
            traces.stop().await;
        }
        store.close().await;
    };
    tokio::pin!(ending);
    tokio::select! {
        () = &mut ending => return Ok(exit::SUCCESS),
        () = signals.next() => {}
        () = driver.ended() => {
            return Err(Failure::new("the processes that make sandboxes were killed")
                .hint("start holm again; it takes over the sandboxes, which go on"));
        }
    }
    tracing::info!("stopping: no new work; running calls may finish");
    // Nobody listens when it has ended by itself.
    let _ = stop.send(());
    tokio::select! {
        () = ending => Ok(exit::SUCCESS),
        () = signals.next() => {
            // The launcher removes what is half made as soon as this process is gone, and the next
            // start settles the rest.
            Err(Failure::new("ended by a second signal, before everything had come to its end")
                .hint("the next start takes over what runs; `holm drain` ends it"))
        }
    }
}

fn previews(settings: &ServeSettings, engine: &Engine, at: SocketAddr) -> Arc<Previews> {
    let wanted = &settings.previews;
    let has_tls = settings.tls.is_some() || wanted.acme.is_some();
    let here = match has_tls {
        true => Base { https: true, port: Some(at.port()).filter(|port| *port != 443) },
        false => Base::plain(at.port()),
    };
    let base = wanted.public.clone().unwrap_or(here);
    let options = PreviewOptions {
        domain: wanted.domain.clone(),
        link_life: wanted.link_life,
        access_life: wanted.access_life,
        access: access(settings, engine),
        ..PreviewOptions::local(Where::At(base))
    };
    Previews::new(engine.clone(), options)
}

fn access(settings: &ServeSettings, engine: &Engine) -> Access {
    match &settings.auth {
        Auth::Keys => Access::Keys(KeyAccess::new(engine.clone(), settings.keyless_rate)),
        Auth::Token(_, token) => Access::Token(token.clone()),
        Auth::None => Access::Open,
    }
}

fn warn_of(auth: &Auth) {
    match auth {
        Auth::None => tracing::warn!(
            "authentication is off: every program on this machine can use this service"
        ),
        Auth::Token(_, None) => tracing::warn!("the token is blank: every request is refused"),
        Auth::Token(_, Some(_)) | Auth::Keys => {}
    }
}
