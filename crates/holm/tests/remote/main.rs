//! `holm mcp` in front of a service: what a client on stdio sees, through proxies, TLS and trouble.

#![allow(clippy::print_stdout, reason = "tests say what they skip")]

#[path = "../common/mod.rs"]
mod common;

mod flow;
mod lost;
mod peer;
mod refusals;
mod ways;

use common::{Home, Mcp, Serve};

/// The service's token.
const TOKEN: &str = "x-marker-x";

/// A service with a token.
fn service(home: &Home) -> Serve {
    home.serve(&[], &[("HOLM_AUTH_TOKEN", TOKEN)])
}

/// A client on stdio in front of `url`, with these variables; nothing was said to it yet.
fn raw(home: &Home, url: &str, env: &[(&str, &str)]) -> Mcp {
    let mut command = home.command();
    command.arg("mcp").env("HOLM_URL", url).env("HOLM_API_KEY", TOKEN).env("HOLM_LOG", "debug");
    command.envs(env.iter().copied());
    Mcp::spawn(command, home)
}

/// The same after its `initialize`.
fn client(home: &Home, url: &str) -> Mcp {
    let mcp = raw(home, url, &[]);
    mcp.initialize("2025-06-18");
    mcp
}

/// Ends a client that made no sandbox here.
fn end(mut mcp: Mcp) {
    mcp.close_stdin();
    let status = mcp.wait();
    assert_eq!(status.code(), Some(0), "{}", mcp.stderr());
    assert!(!mcp.stderr().contains(TOKEN), "the key is in the log: {}", mcp.stderr());
    mcp.assert_protocol_only();
}
