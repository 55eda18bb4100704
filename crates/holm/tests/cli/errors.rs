//! What wrong use says.

use crate::snapshot::{check, holm};

#[test]
fn arguments() {
    check("no-command", holm(&[]));
    check("unknown-command", holm(&["frobnicate"]));
    check("run-without-command", holm(&["run"]));
    check("run-unknown-flag", holm(&["run", "--frobnicate", "--", "true"]));
    check("run-wrong-flag-value", holm(&["run", "--size", "--", "true"]));
    check("run-wrong-timeout", holm(&["run", "--timeout", "soon", "--", "true"]));
    check("run-wrong-user", holm(&["run", "--user", "daemon", "--", "true"]));
    check("run-wrong-mount", holm(&["run", "--mount-ro", "nowhere", "--", "true"]));
    check("run-empty-variable", holm(&["run", "--env", "=x", "--", "true"]));
    check("serve-open-network", holm(&["serve", "--auth", "none", "--bind", "0.0.0.0"]));
    check("serve-without-token", holm(&["serve", "--auth", "token"]));
    check("serve-wrong-bind", holm(&["serve", "--bind", "localhost"]));
    check("run-absent-variable", holm(&["run", "--env", "ABSENT", "--", "true"]));
}

#[test]
fn environment() {
    let with = |arguments: &[&str], name: &str, value: &str| {
        let mut command = holm(arguments);
        command.env(name, value);
        command
    };
    check("log-filter", with(&["doctor"], "HOLM_LOG", "holm=shouting"));
    check("relative-data-dir", with(&["doctor"], "HOLM_DATA_DIR", "data"));
    check("mcp-url", with(&["mcp"], "ABX_SANDBOX_BASE_URL", "https://holm.example"));
    check("mcp-key", with(&["mcp"], "AAS_API_KEY", "aas_sk_marker"));
    check("serve-origin", with(&["serve"], "ABX_MCP_ALLOWED_ORIGINS", "app.example"));
    check("serve-database", with(&["serve"], "HOLM_DATABASE", "mysql://u:x-marker@h/d"));
    check("mcp-count", with(&["mcp"], "HOLM_MAX_SANDBOXES", "none"));
}
