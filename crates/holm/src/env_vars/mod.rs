//! Every environment variable that holm reads, in one place.
//!
//! holm's own names come first; the names that users of comparable systems carry along follow as
//! aliases. An empty value counts as not set. `docs/reference/environment.md` is generated from
//! [`ALL`].

mod environment;

pub use environment::Environment;

/// One variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name.
    pub name: &'static str,
    /// Other names, read in this order when the first is not set.
    pub aliases: &'static [&'static str],
    /// Commands that read it.
    pub commands: &'static [&'static str],
    /// The flag that overrides it, if there is one.
    pub flag: Option<&'static str>,
    /// What it does, as a sentence.
    pub doc: &'static str,
}

/// Where images and layers live.
pub const DATA_DIR: EnvVar = EnvVar {
    name: "HOLM_DATA_DIR",
    aliases: &[],
    commands: &["run", "mcp", "serve", "drain", "doctor", "config", "account", "key", "secret"],
    flag: Some("--data-dir"),
    doc: "Directory for disk images and layers; of a service also for its database and secrets. \
          Default: `/var/lib/holm` for root, else `$XDG_DATA_HOME/holm` or `~/.local/share/holm`.",
};

/// Where sockets live.
pub const RUNTIME_DIR: EnvVar = EnvVar {
    name: "HOLM_RUNTIME_DIR",
    aliases: &[],
    commands: &["run", "mcp", "serve", "drain", "doctor"],
    flag: None,
    doc: "Directory for sockets; its path must be short. Default: `/run/holm` for root, else \
          `$XDG_RUNTIME_DIR/holm` or `/tmp/holm-UID`.",
};

/// The log filter.
pub const LOG: EnvVar = EnvVar {
    name: "HOLM_LOG",
    aliases: &[],
    commands: &["run", "mcp", "serve", "drain", "doctor"],
    flag: None,
    doc: "What to log to standard error: `off`, `error`, `warn`, `info`, `debug`, `trace`, or a \
          list such as `info,holm_engine=debug`. Default: `warn` for `mcp`, `info` for \
          `serve`, `off` for the others.",
};

/// How the log looks.
pub const LOG_FORMAT: EnvVar = EnvVar {
    name: "HOLM_LOG_FORMAT",
    aliases: &[],
    commands: &["run", "mcp", "serve", "doctor"],
    flag: None,
    doc: "`text` for people, or `json`: one object per line. Default: `text`.",
};

/// The settings file.
pub const CONFIG: EnvVar = EnvVar {
    name: "HOLM_CONFIG",
    aliases: &[],
    commands: &["serve", "drain", "config", "account", "key", "secret"],
    flag: Some("--config"),
    doc: "Settings file of the service. Default: `config.toml` in the data directory, if it is \
          there. Every setting is in [settings](settings.md).",
};

/// The template of sandboxes that name none.
pub const DEFAULT_TEMPLATE: EnvVar = EnvVar {
    name: "HOLM_DEFAULT_TEMPLATE",
    aliases: &["ABX_DEFAULT_TEMPLATE"],
    commands: &["run", "mcp", "serve", "config"],
    flag: Some("--template"),
    doc: "Template of sandboxes that name none. Default: `host`.",
};

/// Most sandboxes at once.
pub const MAX_SANDBOXES: EnvVar = EnvVar {
    name: "HOLM_MAX_SANDBOXES",
    aliases: &[],
    commands: &["mcp", "serve", "config"],
    flag: Some("--max-sandboxes"),
    doc: "Most sandboxes that may run at once, in `serve` of one account. Default: 20.",
};

/// What sandboxes may reach.
pub const NETWORK: EnvVar = EnvVar {
    name: "HOLM_NETWORK",
    aliases: &[],
    commands: &["run", "mcp", "serve", "config"],
    flag: Some("--network"),
    doc: "What sandboxes may reach that say nothing: `none`, `open` (public addresses), or a list such \
          as `allow:api.example.com,*.example.org:443`. Default: `open` where there are egress gates.",
};

/// Layers of isolation that a service's sandboxes may lack.
pub const ALLOW_MISSING: EnvVar = EnvVar {
    name: "HOLM_ALLOW_MISSING",
    aliases: &[],
    commands: &["serve", "config"],
    flag: Some("--allow-missing"),
    doc: "Layers of isolation that the service goes on without where the host does not give them, \
          with commas between: `own_id_range`, `landlock`, `memory_limit`, `cpu_limit`. Default: \
          none.",
};

/// Where the service listens.
pub const BIND: EnvVar = EnvVar {
    name: "HOLM_BIND",
    aliases: &[],
    commands: &["serve", "config"],
    flag: Some("--bind"),
    doc: "IP address to listen at. Default: 127.0.0.1. Others than loopback need keys \
          or a token.",
};

/// The port of the service.
pub const PORT: EnvVar = EnvVar {
    name: "HOLM_PORT",
    aliases: &[],
    commands: &["serve", "config"],
    flag: Some("--port"),
    doc: "Port to listen at; 0 takes a free one. Default: 9000.",
};

/// The database of the service.
pub const DATABASE: EnvVar = EnvVar {
    name: "HOLM_DATABASE",
    aliases: &[],
    commands: &["serve", "drain", "config", "account", "key", "secret"],
    flag: Some("--database"),
    doc: "Where the service keeps accounts, keys, sandboxes and the ledger: `sqlite` (a file in \
          the data directory) or `postgres://user:password@host:port/database`. Default: `sqlite`.",
};

/// What becomes of sandboxes when the service is stopped.
pub const ON_STOP: EnvVar = EnvVar {
    name: "HOLM_ON_STOP",
    aliases: &[],
    commands: &["serve", "config"],
    flag: Some("--on-stop"),
    doc: "What becomes of sandboxes when the service is stopped: `keep` (they go on, and the next \
          start takes them over) or `end`. Default: `keep`.",
};

/// The one token of the service.
pub const AUTH_TOKEN: EnvVar = EnvVar {
    name: "HOLM_AUTH_TOKEN",
    aliases: &["ABX_MCP_AUTH_TOKEN"],
    commands: &["serve", "config"],
    flag: None,
    doc: "One token that all clients send, instead of API keys. Set but blank lets nobody in, so here an empty value does \
          count. Never logged, never passed into a sandbox.",
};

/// Web pages that may use the service.
pub const ALLOWED_ORIGINS: EnvVar = EnvVar {
    name: "HOLM_ALLOWED_ORIGINS",
    aliases: &["ABX_MCP_ALLOWED_ORIGINS"],
    commands: &["serve", "config"],
    flag: None,
    doc: "Origins of web pages that may use the service besides those of this machine, with \
          commas between. Their hosts may also be in `Host`, as a proxy sends it.",
};

/// Where previews are.
pub const PREVIEW_DOMAIN: EnvVar = EnvVar {
    name: "HOLM_PREVIEW_DOMAIN",
    aliases: &["ABX_SANDBOX_DOMAIN"],
    commands: &["serve", "config"],
    flag: None,
    doc: "Domain below which exposed ports are shown to people outside. Default: `localhost`.",
};

/// Who is told what happens.
pub const WEBHOOK_URLS: EnvVar = EnvVar {
    name: "HOLM_WEBHOOK_URLS",
    aliases: &[],
    commands: &["serve", "drain", "config"],
    flag: None,
    doc: "URLs that are told what happens to sandboxes and balances, with commas between. They may \
          hold secrets and are never logged.",
};

/// What signs the messages to them.
pub const WEBHOOK_SECRETS: EnvVar = EnvVar {
    name: "HOLM_WEBHOOK_SECRETS",
    aliases: &[],
    commands: &["serve", "drain", "config"],
    flag: None,
    doc: "What signs the messages to `HOLM_WEBHOOK_URLS`: `whsec_` and 24 to 64 random bytes in \
          base64; one for all, or one for each with commas between. Never logged.",
};

/// Who is told of each request.
pub const TRACE_ENDPOINT: EnvVar = EnvVar {
    name: "OTEL_EXPORTER_OTLP_ENDPOINT",
    aliases: &[],
    commands: &["serve", "config"],
    flag: None,
    doc: "URL of an OpenTelemetry collector that is told of each request by OTLP over HTTP (JSON), \
          such as `http://localhost:4318`. Default: nobody is told.",
};

/// What it wants besides.
pub const TRACE_HEADERS: EnvVar = EnvVar {
    name: "OTEL_EXPORTER_OTLP_HEADERS",
    aliases: &[],
    commands: &["serve", "config"],
    flag: None,
    doc: "Headers that the collector wants, such as its key: `name=value,name=value`. Never logged.",
};

/// What the service is called there.
pub const TRACE_NAME: EnvVar = EnvVar {
    name: "OTEL_SERVICE_NAME",
    aliases: &[],
    commands: &["serve", "config"],
    flag: None,
    doc: "What the service is called in traces. Default: `holm`.",
};

/// Where a service is.
pub const URL: EnvVar = EnvVar {
    name: "HOLM_URL",
    aliases: &["ABX_SANDBOX_BASE_URL"],
    commands: &["mcp", "forward", "port", "account", "key", "secret"],
    flag: Some("--local"),
    doc: "URL of a holm service to use instead of the embedded engine, with or without `/mcp` or \
          `/v1/mcp` at its end. `--local` ignores it. `account` and `key` work through that service; \
          a flag that names the database ignores it, `--url` overrides it.",
};

/// A service's key.
pub const API_KEY: EnvVar = EnvVar {
    name: "HOLM_API_KEY",
    aliases: &["ABX_SANDBOX_API_KEY", "AAS_API_KEY"],
    commands: &["mcp", "forward", "port", "account", "key", "secret"],
    flag: Some("--local"),
    doc: "Key of the service at `HOLM_URL`. A key without a URL is refused, because no service's \
          address is built in; `--local` ignores it. `account` and `key` need an administrator's; without a URL they \
          ignore it, `--key-file` overrides it. Never logged, never passed into a sandbox.",
};

/// Certificates to trust besides the system's.
pub const CA_FILE: EnvVar = EnvVar {
    name: "HOLM_CA_FILE",
    aliases: &[],
    commands: &["mcp", "serve", "forward", "port", "account", "key", "secret"],
    flag: None,
    doc: "File with certificates (PEM) of an authority to trust besides those of the system: for \
          the service at `HOLM_URL`, and for webhooks.",
};

/// Certificates to trust instead of the system's.
pub const SSL_CERT_FILE: EnvVar = EnvVar {
    name: "SSL_CERT_FILE",
    aliases: &[],
    commands: &["run", "mcp", "serve", "forward", "port", "account", "key", "secret"],
    flag: None,
    doc: "File with certificates (PEM) to trust in place of those of the system.",
};

/// The proxy for https.
pub const HTTPS_PROXY: EnvVar = EnvVar {
    name: "HTTPS_PROXY",
    aliases: &["https_proxy"],
    commands: &["run", "mcp", "serve", "forward", "port", "account", "key", "secret"],
    flag: None,
    doc: "Proxy to a service whose URL begins with `https://`, such as \
          `http://proxy.example.com:3128`; in `serve` to a collector. Services on this machine \
          are reached directly. Also what sandboxes' connections go through, whatever they carry.",
};

/// The proxy of sandboxes.
pub const ALL_PROXY: EnvVar = EnvVar {
    name: "ALL_PROXY",
    aliases: &["all_proxy"],
    commands: &["run", "mcp", "serve"],
    flag: None,
    doc: "Proxy of sandboxes' connections where `HTTPS_PROXY` is not set.",
};

/// The proxy for http.
pub const HTTP_PROXY: EnvVar = EnvVar {
    name: "HTTP_PROXY",
    aliases: &["http_proxy"],
    commands: &["mcp", "serve", "forward", "port", "account", "key", "secret"],
    flag: None,
    doc: "The same for `http://`.",
};

/// Hosts without a proxy.
pub const NO_PROXY: EnvVar = EnvVar {
    name: "NO_PROXY",
    aliases: &["no_proxy"],
    commands: &["run", "mcp", "serve", "forward", "port", "account", "key", "secret"],
    flag: None,
    doc: "Hosts, ends of hosts, addresses and networks that are reached without a proxy, with \
          commas between; `*` is all.",
};

/// No colours.
pub const NO_COLOR: EnvVar = EnvVar {
    name: "NO_COLOR",
    aliases: &[],
    commands: &["run", "mcp", "serve", "drain", "doctor"],
    flag: None,
    doc: "Any value turns colours off. Colours are used on terminals only.",
};

/// The terminal's type.
pub const TERM: EnvVar = EnvVar {
    name: "TERM",
    aliases: &[],
    commands: &["run", "doctor"],
    flag: None,
    doc: "Type of the terminal; given to the command when it gets a terminal. `dumb` turns \
          colours off.",
};

/// Where a user's data is.
pub const XDG_DATA_HOME: EnvVar = EnvVar {
    name: "XDG_DATA_HOME",
    aliases: &[],
    commands: &["run", "mcp", "serve", "doctor"],
    flag: None,
    doc: "Base of the default data directory of users other than root.",
};

/// Where a user's sockets are.
pub const XDG_RUNTIME_DIR: EnvVar = EnvVar {
    name: "XDG_RUNTIME_DIR",
    aliases: &[],
    commands: &["run", "mcp", "serve", "doctor"],
    flag: None,
    doc: "Base of the default runtime directory of users other than root.",
};

/// All of them, in the order of the reference page.
pub const ALL: &[EnvVar] = &[
    DATA_DIR,
    RUNTIME_DIR,
    LOG,
    LOG_FORMAT,
    CONFIG,
    DEFAULT_TEMPLATE,
    MAX_SANDBOXES,
    NETWORK,
    ALLOW_MISSING,
    BIND,
    PORT,
    DATABASE,
    ON_STOP,
    AUTH_TOKEN,
    ALLOWED_ORIGINS,
    PREVIEW_DOMAIN,
    WEBHOOK_URLS,
    WEBHOOK_SECRETS,
    TRACE_ENDPOINT,
    TRACE_HEADERS,
    TRACE_NAME,
    URL,
    API_KEY,
    CA_FILE,
    SSL_CERT_FILE,
    HTTPS_PROXY,
    ALL_PROXY,
    HTTP_PROXY,
    NO_PROXY,
    NO_COLOR,
    TERM,
    XDG_DATA_HOME,
    XDG_RUNTIME_DIR,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_documented_once() {
        let mut seen = std::collections::BTreeSet::new();
        for variable in ALL {
            assert!(variable.doc.ends_with('.'), "{}", variable.name);
            assert!(!variable.commands.is_empty(), "{}", variable.name);
            for name in std::iter::once(&variable.name).chain(variable.aliases) {
                assert!(seen.insert(*name), "{name} twice");
            }
        }
    }
}
