//! Settings of `holm serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use holm_engine::{EngineSettings, Rate, UplinkOptions};
use holm_gateway::http::access::Secret;
use holm_runtime::Layer;

use super::layers::{InForce, Layers, Origin, wrong};
use super::service::{self, Base};
use super::{HostSettings, PreviewSettings, limits, network, previews, table, traces, webhooks};
use crate::cli::{AuthMode, OnStop, ServeArgs};
use crate::env_vars::{self, Environment};
use crate::exit::Failure;
use crate::output::Paint;
use crate::service::{Database, TraceSettings, WebhookSettings};

/// Resolved settings.
#[derive(Debug)]
pub struct ServeSettings {
    /// Directories and log.
    pub host: HostSettings,
    /// Where accounts, keys, sandboxes and the ledger are.
    pub database: Database,
    /// Where to listen.
    pub address: SocketAddr,
    /// Files with certificate and key, where it speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Who is let in.
    pub auth: Auth,
    /// What becomes of sandboxes when it is stopped.
    pub on_stop: OnStop,
    /// Origins of web pages that may use the service.
    pub allowed_origins: Vec<String>,
    /// Template of sandboxes that name none.
    pub template: String,
    /// Layers of isolation that sandboxes may lack.
    pub allow_missing: Vec<Layer>,
    /// Limits, sizes, prices.
    pub engine: EngineSettings,
    /// Where gates of sandboxes lead to.
    pub uplink: UplinkOptions,
    /// MCP sessions at once.
    pub sessions_max: usize,
    /// MCP sessions of one account at once.
    pub sessions_per_account: usize,
    /// How long an MCP session may idle.
    pub sessions_idle: Duration,
    /// Who is told what happens.
    pub webhooks: WebhookSettings,
    /// Who is told of each request, if anybody is.
    pub traces: Option<TraceSettings>,
    /// How often a stream without news says that it lives.
    pub keep_alive: Duration,
    /// What runs in sandboxes, shown to people outside.
    pub previews: PreviewSettings,
    /// Requests of an address without a key.
    pub keyless_rate: Rate,
    /// Colours in the log.
    pub log_colours: bool,
    /// All of it as it is in force, and where it comes from.
    pub in_force: Vec<InForce>,
}

/// Who is let in.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Who has a key of an account.
    Keys,
    /// Who has the one token, which is also in this variable. Nobody where it is blank.
    Token(&'static str, Option<Secret>),
    /// Everybody.
    None,
}

impl Auth {
    /// Its mode.
    fn mode(&self) -> AuthMode {
        match self {
            Self::Keys => AuthMode::Keys,
            Self::Token(..) => AuthMode::Token,
            Self::None => AuthMode::None,
        }
    }
}

impl ServeSettings {
    /// Resolves arguments, environment and file.
    ///
    /// # Errors
    /// When a value is wrong, or anybody on the network would be let in.
    pub fn resolve(arguments: ServeArgs, environment: &Environment) -> Result<Self, Failure> {
        let flags = vec![
            (table::BIND, arguments.bind.map(|ip| ip.to_string())),
            (table::PORT, arguments.port.map(|port| port.to_string())),
            (table::AUTH, arguments.auth.map(|mode| mode.as_str().to_owned())),
            (table::ON_STOP, arguments.on_stop.map(|what| what.as_str().to_owned())),
            (table::TEMPLATE, arguments.template),
            (table::MAX_PER_ACCOUNT, arguments.max_sandboxes.map(|count| count.to_string())),
            (table::ALLOW_MISSING, arguments.allow_missing),
            (table::NETWORK, arguments.network),
        ];
        let Base { layers, host, database } = service::base(arguments.service, flags, environment)?;
        let ip = layers.read(&table::BIND, "an IP address", |text| text.parse::<IpAddr>().ok())?;
        let port = layers.read(&table::PORT, "a port", |text| text.parse().ok())?;
        let auth = auth(&layers)?;
        if !ip.to_canonical().is_loopback() {
            refuse_open(ip, &auth)?;
        }
        let tls = tls(&layers)?;
        let on_stop = layers.read(&table::ON_STOP, "keep or end", OnStop::read)?;
        let allowed_origins = origins(&layers)?;
        let template = layers.text(&table::TEMPLATE)?.1;
        let what = "a list of own_id_range, landlock, memory_limit and cpu_limit";
        let allow_missing = layers.read(&table::ALLOW_MISSING, what, excusable)?;
        let sessions_max = limits::count(&layers, &table::SESSIONS_MAX)?;
        let sessions_per_account =
            limits::count_or(&layers, &table::SESSIONS_PER_ACCOUNT, sessions_max)?;
        let sessions_idle = limits::duration(&layers, &table::SESSIONS_IDLE)?;
        let keep_alive = limits::duration(&layers, &table::KEEP_ALIVE)?;
        let keyless_rate =
            limits::rate(&layers, &table::KEYLESS_RATE, 60.0, &table::KEYLESS_BURST)?;
        let engine = limits::engine(&layers)?;
        let previews = previews::previews(&layers, environment, tls.is_some())?;
        let uplink = network::uplink(&layers, environment)?;
        let webhooks = webhooks::webhooks(&layers, environment)?;
        let traces = traces::traces(&layers, environment)?;
        Ok(Self {
            host,
            database,
            address: SocketAddr::new(ip, port),
            tls,
            auth,
            on_stop,
            allowed_origins,
            template,
            allow_missing,
            engine,
            previews,
            uplink,
            webhooks,
            traces,
            sessions_max,
            sessions_per_account,
            sessions_idle,
            keep_alive,
            keyless_rate,
            log_colours: Paint::stderr(environment).is_on(),
            in_force: layers.into_found(),
        })
    }
}

/// Who is let in. A token that is set but blank counts: it lets nobody in, where leaving it out
/// would let others in.
fn auth(layers: &Layers<'_>) -> Result<Auth, Failure> {
    let (origin, mode) = layers.find(&table::AUTH)?;
    let (token_from, token) = layers.text(&table::TOKEN)?;
    let variable = match token_from {
        Origin::Variable(name) => name,
        _ => env_vars::AUTH_TOKEN.name,
    };
    let is_set = token_from != Origin::Default;
    let auth = match AuthMode::read(&mode) {
        Some(AuthMode::None) => Auth::None,
        Some(AuthMode::Keys) => Auth::Keys,
        Some(AuthMode::Token) if !is_set => {
            return Err(Failure::usage(format!("--auth token needs {variable}"))
                .hint("make one with `openssl rand -base64 32`"));
        }
        None if !mode.is_empty() => {
            return Err(wrong(&table::AUTH, &origin, "keys, token or none", &mode));
        }
        None if !is_set => Auth::Keys,
        Some(AuthMode::Token) | None => Auth::Token(variable, Secret::new(&token)),
    };
    layers.note(&table::AUTH, &origin, auth.mode().as_str());
    Ok(auth)
}

/// Both files or none.
fn tls(layers: &Layers<'_>) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let certificate = layers.text(&table::TLS_CERTIFICATE)?.1;
    let key = layers.text(&table::TLS_KEY)?.1;
    match (certificate.is_empty(), key.is_empty()) {
        (true, true) => Ok(None),
        (false, false) => Ok(Some((certificate.into(), key.into()))),
        _ => {
            let (one, other) = (table::TLS_CERTIFICATE.key, table::TLS_KEY.key);
            Err(Failure::usage(format!("{one} and {other} are only good together"))
                .hint("set both, or neither for plain HTTP"))
        }
    }
}

fn refuse_open(ip: IpAddr, auth: &Auth) -> Result<(), Failure> {
    let problem = match auth {
        Auth::None => "would let everybody on the network in",
        Auth::Token(_, None) => "needs a token that is not blank",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("listening at {ip} {problem}")).hint(format!(
        "let clients in by key (the default), set {} (make one with `openssl rand -base64 32`), \
         or listen at 127.0.0.1",
        env_vars::AUTH_TOKEN.name
    )))
}

/// A list with commas; each layer once, in the order of [`Layer::EXCUSABLE`].
fn excusable(text: &str) -> Option<Vec<Layer>> {
    let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    let is_one = |item: &&str| Layer::EXCUSABLE.iter().any(|layer| layer.to_string() == **item);
    let listed = |layer: &Layer| items.contains(&layer.to_string().as_str());
    items.iter().all(is_one).then(|| Layer::EXCUSABLE.into_iter().filter(listed).collect())
}

/// A list with commas. What is no origin would never match, so it is a mistake.
fn origins(layers: &Layers<'_>) -> Result<Vec<String>, Failure> {
    let (origin, text) = layers.text(&table::ALLOWED_ORIGINS)?;
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let authority = item.split_once("://").map_or("", |(_, authority)| authority);
            if authority.is_empty() || authority.contains('/') {
                let what = "a list of origins, each scheme, host and port, such as \
                            https://app.example";
                return Err(wrong(&table::ALLOWED_ORIGINS, &origin, what, item));
            }
            Ok(item.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests;
