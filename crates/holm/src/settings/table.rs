//! Every setting of the service: its name in the settings file, its variable, its flag, its
//! default. `docs/reference/settings.md` is generated from [`all`].

use std::borrow::Cow;

use holm_engine::{Size, SizeName, Sizes};

use crate::env_vars::{self, EnvVar};

/// One setting.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Its name in the settings file, tables with dots.
    pub key: Cow<'static, str>,
    /// Its variable, which comes before the file.
    pub env: Option<EnvVar>,
    /// Its flag, which comes before the variable.
    pub flag: Option<&'static str>,
    /// Its value where nothing sets it, as the file would have it.
    pub default: Cow<'static, str>,
    /// What may be shown of it.
    pub shown: Shown,
    /// Whether an empty variable sets it, where other settings take it as not set.
    pub blank_counts: bool,
    /// What it does, as a sentence.
    pub doc: Cow<'static, str>,
}

/// What may be shown of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    Whole,
    /// A URL without its password.
    Url,
    /// Only whether there is one.
    Never,
}

const fn setting(key: &'static str, default: &'static str, doc: &'static str) -> Setting {
    Setting {
        key: Cow::Borrowed(key),
        env: None,
        flag: None,
        default: Cow::Borrowed(default),
        shown: Shown::Whole,
        blank_counts: false,
        doc: Cow::Borrowed(doc),
    }
}

impl Setting {
    const fn env(mut self, env: EnvVar) -> Self {
        self.flag = env.flag;
        self.env = Some(env);
        self
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn blank_counts(mut self) -> Self {
        self.blank_counts = true;
        self
    }

    const fn shown(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }
}

/// Declares constants, and the list of them.
macro_rules! settings {
    ($($name:ident = $setting:expr;)*) => {
        $(#[doc = "See its `doc`."] pub const $name: Setting = $setting;)*
        const NAMED: &[Setting] = &[$($name),*];
    };
}

settings! {
    DATA_DIR = setting("data_dir", "", "Directory for the database, secrets, disk images and \
        layers. Not in a settings file that lies in it. Default: `/var/lib/holm` for root, else \
        `$XDG_DATA_HOME/holm` or `~/.local/share/holm`.").env(env_vars::DATA_DIR);
    RUNTIME_DIR = setting("runtime_dir", "", "Directory for sockets; its path must be short. \
        Default: `/run/holm` for root, else `$XDG_RUNTIME_DIR/holm` or `/tmp/holm-UID`.")
        .env(env_vars::RUNTIME_DIR);
    LOG = setting("log", "info", "What to log: `off`, `error`, `warn`, `info`, `debug`, `trace`, \
        or a list such as `info,holm_engine=debug`.").env(env_vars::LOG);
    LOG_FORMAT = setting("log_format", "text", "`text` for people, or `json`: one object per \
        line.").env(env_vars::LOG_FORMAT);
    DATABASE = setting("database", "sqlite", "`sqlite`: a file in the data directory; or \
        `postgres://user:password@host:port/database`.")
        .env(env_vars::DATABASE).shown(Shown::Url);
    BIND = setting("server.bind", "127.0.0.1", "IP address to listen at.").env(env_vars::BIND);
    ON_STOP = setting("server.on_stop", "keep", "What becomes of sandboxes when the service is \
        stopped: `keep` leaves them running for the next start, `end` destroys them.")
        .env(env_vars::ON_STOP);
    PORT = setting("server.port", "9000", "Port to listen at; 0 takes a free one.")
        .env(env_vars::PORT);
    AUTH = setting("server.auth", "", "`keys`, `token` or `none`. Default: `token` where \
        `server.token` is set, else `keys`.").flag("--auth");
    TOKEN = setting("server.token", "", "One token that all clients send, instead of API keys. \
        Set but blank lets nobody in.").env(env_vars::AUTH_TOKEN).shown(Shown::Never).blank_counts();
    KEEP_ALIVE = setting("server.keep_alive", "15s", "How often the stream of a call without news \
        says that it lives: less than the silence after which a proxy in front gives up.");
    TLS_CERTIFICATE = setting("server.tls.certificate", "", "File with the certificate and its chain \
        (PEM) for TLS, read again when it changes. Without one the service speaks plain HTTP.");
    TLS_KEY = setting("server.tls.key", "", "File with the key (PEM) of that certificate.");
    ALLOWED_ORIGINS = setting("server.allowed_origins", "", "Origins of web pages that may use \
        the service besides those of this machine; a list.").env(env_vars::ALLOWED_ORIGINS);
    TEMPLATE = setting("sandboxes.template", "host", "Template of sandboxes that name none.")
        .env(env_vars::DEFAULT_TEMPLATE);
    MAX_PER_ACCOUNT = setting("sandboxes.max_per_account", "20", "Sandboxes of one account at \
        once, where the account has no limit of its own.").env(env_vars::MAX_SANDBOXES);
    MAX_HERE = setting("sandboxes.max_here", "1000", "Sandboxes of all accounts at once on this \
        machine.");
    ALLOW_MISSING = setting("sandboxes.allow_missing", "", "Layers of isolation that sandboxes may \
        lack where the host does not give them, instead of none being made; a list of \
        `own_id_range`, `landlock`, `memory_limit` and `cpu_limit`.").env(env_vars::ALLOW_MISSING);
    LIFETIME = setting("sandboxes.lifetime", "15m", "Lifetime of a sandbox whose creator names \
        none.");
    LIFETIME_MIN = setting("sandboxes.lifetime_min", "1m", "Shortest lifetime that may be asked for; \
        REST takes whole minutes or 60 seconds and more.");
    LIFETIME_MAX = setting("sandboxes.lifetime_max", "24h", "Longest lifetime from ready, \
        extensions included.");
    EXEC_TIMEOUT = setting("sandboxes.exec_timeout", "60s", "Time of a command whose caller names \
        none.");
    CODE_TIMEOUT = setting("sandboxes.code_timeout", "30s", "Time of code whose caller names \
        none.");
    NETWORK = setting("sandboxes.network", "open", "What sandboxes may reach whose creator says \
        nothing: `none`, `open` (public addresses), or a list such as \
        `allow:api.example.com,*.example.org:443`; `open` and `allow` also with \
        `;deny:*.example.com` behind them.").env(env_vars::NETWORK);
    NETWORK_DENY = setting("network.deny", "", "What no sandbox may reach, whatever was asked \
        for: a list of names, `*.names`, addresses and networks, each also with a port. This host, \
        private and other special addresses are refused in any case.");
    NETWORK_CONNECTIONS = setting("network.connections_max", "2000", "Open connections of one \
        sandbox.");
    NETWORK_CONNECTIONS_TOTAL = setting("network.connections_total", "10000", "Open connections \
        of all sandboxes on this machine; less where it may not open so many files.");
    NETWORK_BANDWIDTH = setting("network.bandwidth", "0", "Bytes per second of one sandbox, both \
        ways together; 0 for no limit.");
    NETWORK_RESOLVERS = setting("network.resolvers", "", "Whom to ask for names that sandboxes ask \
        for; a list of addresses. Default: those of `/etc/resolv.conf`.");
    SESSIONS_MAX = setting("sessions.max", "100", "MCP sessions at once.");
    SESSIONS_PER_ACCOUNT = setting("sessions.max_per_account", "", "The same of one account. \
        Default: all of them.");
    SESSIONS_IDLE = setting("sessions.idle", "1h", "Time without a request after which an MCP \
        session ends, and its sandboxes with it.");
    KEY_RATE = setting("rates.key_per_second", "1000", "Requests that one key may make in a \
        second; 0 for any number.");
    KEY_BURST = setting("rates.key_burst", "2000", "Requests that one key may make at once after \
        a pause.");
    KEYLESS_RATE = setting("rates.keyless_per_minute", "120", "Requests without a key from one \
        address in a minute; 0 for any number.");
    KEYLESS_BURST = setting("rates.keyless_burst", "60", "Requests without a key from one address \
        at once after a pause.");
    CURRENCY = setting("billing.currency", "USD", "What money is counted in.");
    PRICE_SMALL = setting("billing.small", "0", "Price of a second of a small sandbox, in \
        millionths of the currency's unit: 14 is 0.0504 in an hour.");
    PRICE_MEDIUM = setting("billing.medium", "0", "The same for medium ones.");
    PRICE_LARGE = setting("billing.large", "0", "The same for large ones.");
    PAUSED_PRICE_SMALL = setting("billing.paused_small", "0", "Price of a second of a small sandbox \
        while it is paused. A second in which it runs, however shortly, costs `billing.small`.");
    PAUSED_PRICE_MEDIUM = setting("billing.paused_medium", "0", "The same for medium ones.");
    PAUSED_PRICE_LARGE = setting("billing.paused_large", "0", "The same for large ones.");
    METER_INTERVAL = setting("billing.interval", "10s", "How often sandboxes that run or are paused \
        are charged, and recorded as alive.");
    BALANCE_GRACE = setting("billing.grace", "60s", "How long sandboxes go on when their account \
        has nothing left.");
    LOW_BALANCE = setting("billing.low_balance", "1.00", "Below which balance of an account webhooks \
        are told that it runs low; 0 for never.");
    PREVIEW_DOMAIN = setting("previews.domain", "", "Domain below which exposed ports are shown to \
        people outside, with a host for each; its wildcard must lead here. Default: that of \
        `previews.public_url`, else `localhost`.").env(env_vars::PREVIEW_DOMAIN);
    PREVIEW_LISTEN = setting("previews.listen", "", "Address and port where previews are served, \
        such as `127.0.0.1:9001`, instead of the service's own.");
    PREVIEW_PUBLIC_URL = setting("previews.public_url", "", "Where previews are to visitors, where a \
        proxy is in front: scheme, domain and port, such as `https://preview.example.com`.");
    PREVIEW_LINK_LIFE = setting("previews.link_life", "15m", "How long the link to a private preview \
        waits to be opened; it opens once.");
    PREVIEW_ACCESS_LIFE = setting("previews.access_life", "24h", "How long a visitor may look at a \
        private preview after that, and how long the token of a program works.");
    ACME_DIRECTORY = setting("previews.acme.directory", "", "Directory of an authority that gives \
        a certificate for previews by ACME, such as `https://acme.example.com/directory`; nobody is \
        asked where it is empty. To set it is to agree to that authority's terms.");
    ACME_CONTACT = setting("previews.acme.contact", "", "Address of a person, or `mailto:` and an \
        address, that the authority may write to.");
    ACME_HOOK = setting("previews.acme.hook", "", "Program that puts a record into DNS and takes it \
        away: it is run as `HOOK present NAME VALUE` and `HOOK cleanup NAME VALUE`.");
    WEBHOOK_URLS = setting("webhooks.urls", "", "Who is told what happens to sandboxes and \
        balances; a list of URLs.").env(env_vars::WEBHOOK_URLS).shown(Shown::Never);
    WEBHOOK_SECRETS = setting("webhooks.secrets", "", "What signs the messages: `whsec_` and 24 \
        to 64 random bytes in base64; one for all of them, or a list with one for each.")
        .env(env_vars::WEBHOOK_SECRETS).shown(Shown::Never);
    WEBHOOK_ALLOW = setting("webhooks.allow", "", "Networks in which they may be besides public \
        addresses; a list such as `10.1.0.0/16,fd00::/8`.");
    WEBHOOK_TIMEOUT = setting("webhooks.timeout", "15s", "How long one attempt to tell them may \
        take.");
    WEBHOOK_PAUSE = setting("webhooks.pause", "5s", "The pause after the first attempt that \
        failed; it triples with each further one, up to 6 hours.");
    TRACE_ENDPOINT = setting("traces.endpoint", "", "URL of an OpenTelemetry collector that is \
        told of each request by OTLP over HTTP, such as `http://localhost:4318`; none is told \
        where it is empty.").env(env_vars::TRACE_ENDPOINT).shown(Shown::Url);
    TRACE_HEADERS = setting("traces.headers", "", "Headers that the collector wants, such as its \
        key: `name=value,name=value`.").env(env_vars::TRACE_HEADERS).shown(Shown::Never);
    TRACE_NAME = setting("traces.service_name", "holm", "What this service is called there.")
        .env(env_vars::TRACE_NAME);
}

/// One number of a size.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizeField {
    name: &'static str,
    what: &'static str,
    of: fn(&Size) -> u64,
}

pub(super) const VCPUS: SizeField =
    SizeField { name: "vcpus", what: "Processors", of: |size| size.vcpus.into() };
pub(super) const MEMORY: SizeField =
    SizeField { name: "memory_mb", what: "Memory in MiB", of: |size| size.memory_mb };
pub(super) const DISK: SizeField =
    SizeField { name: "disk_mb", what: "Disk in MiB", of: |size| size.disk_mb };
pub(super) const INODES: SizeField =
    SizeField { name: "disk_inodes", what: "Files and directories", of: |size| size.disk_inodes };
pub(super) const PROCESSES: SizeField = SizeField {
    name: "max_processes",
    what: "Processes and threads",
    of: |size| size.max_processes,
};

/// All of them, in the order of the reference page.
#[must_use]
pub fn all() -> Vec<Setting> {
    let fields = [VCPUS, MEMORY, DISK, INODES, PROCESSES];
    let sizes = SizeName::ALL.into_iter().flat_map(|size| fields.map(|field| field.of_size(size)));
    NAMED.iter().cloned().chain(sizes).collect()
}

impl SizeField {
    /// The setting of this number of a size.
    pub(super) fn of_size(self, size: SizeName) -> Setting {
        let default = (self.of)(&Sizes::default().get(size));
        Setting {
            key: format!("sizes.{size}.{}", self.name).into(),
            default: default.to_string().into(),
            doc: format!("{} of a {size} sandbox.", self.what).into(),
            ..setting("", "", "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_documented_once() {
        let mut seen = std::collections::BTreeSet::new();
        for setting in all() {
            assert!(setting.doc.ends_with('.'), "{}", setting.key);
            assert!(seen.insert(setting.key.clone()), "{} twice", setting.key);
        }
    }
}
