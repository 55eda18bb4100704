//! What a model is told when a service gives no result: what happened, whether the call may have
//! been done, and what to do next.

use std::time::Duration;

use holm_client::mcp::Failure;
use holm_client::{Error, ErrorKind};
use holm_gateway::mcp::jsonrpc::{RpcError, UNAUTHORIZED};
use holm_gateway::mcp::outcome::ToolError;

/// The variables that the user has set.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    pub key: &'static str,
    pub url: &'static str,
}

/// The error of a call, for a model where there is something to do about it.
///
/// # Errors
/// What is a fault of the request itself, as the service sees it.
pub fn explain(failure: Failure, names: &Names) -> Result<ToolError, RpcError> {
    Ok(match failure {
        Failure::Rpc { code, message, .. } if code == UNAUTHORIZED => unauthorized(&message, names),
        Failure::Rpc { code, message, data } => return Err(RpcError { code, message, data }),
        Failure::Refused { status, message, retry_after } => {
            refused(status, &message, retry_after, names)
        }
        Failure::Http(error) => broken(&error, names),
        Failure::DefaultLost => ToolError::new(
            "sandbox_gone",
            "the service has ended this session (it was restarted, or the session was idle)",
        )
        .suggest(
            "The default sandbox of before is gone for you, and its files with it. The next call \
             without sandbox_id gets a new, empty one. Sandboxes may still be there by their ids: \
             see list_sandboxes.",
        ),
        Failure::Closed => {
            ToolError::new("unavailable", "the connection is being closed; nothing was done")
        }
    })
}

fn unauthorized(message: &str, names: &Names) -> ToolError {
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    ToolError::new("unauthorized", format!("the service does not accept the key{said}")).suggest(
        format!("Ask the user to set {} to a key of the service and to start again.", names.key),
    )
}

fn refused(status: u16, message: &str, again: Option<Duration>, names: &Names) -> ToolError {
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    let wait = match again {
        Some(time) => {
            format!("Nothing was done. Wait {} s, then call again.", time.as_secs().max(1))
        }
        None => "Nothing was done. Wait a little, then call again.".to_owned(),
    };
    let url = names.url;
    let wrong_url = format!("Ask the user whether {url} is the URL of a holm service.");
    match status {
        401 => unauthorized(message, names),
        403 => ToolError::new("forbidden", format!("the service refuses this client{said}"))
            .suggest(format!("Ask the user whether {url} and the key are right.")),
        413 => ToolError::new("too_large", format!("the call is too long for the service{said}"))
            .suggest("Send less at once, for example files in parts."),
        429 => {
            ToolError::new("rate_limited", format!("too many calls for now{said}")).suggest(wait)
        }
        503 => ToolError::new("unavailable", format!("the service takes no calls now{said}"))
            .suggest(wait),
        300..=399 => ToolError::new(
            "unavailable",
            format!("{url} leads to another address (status {status})"),
        )
        .suggest(format!("Ask the user to set {url} to the address where the service is.")),
        404 | 405 => {
            ToolError::new("unavailable", format!("there is no holm service at {url}{said}"))
                .suggest(wrong_url)
        }
        500.. => ToolError::new(
            "unavailable",
            format!("the service, or what stands before it, failed (status {status}){said}"),
        )
        .suggest(MAYBE_DONE),
        _ => ToolError::new("unavailable", format!("the service answers status {status}{said}"))
            .suggest(wrong_url),
    }
}

const MAYBE_DONE: &str = "The call may have been done, or not: look before you repeat it \
                          (list_sandboxes, list_files).";

fn broken(error: &Error, names: &Names) -> ToolError {
    let told = ToolError::new("unavailable", error.message.clone());
    match error.kind {
        ErrorKind::Unreachable | ErrorKind::Proxy => told.suggest(format!(
            "Nothing was done. Ask the user whether the service at {} is running and can be \
             reached from here, then call again.",
            names.url
        )),
        ErrorKind::Tls => told.suggest(format!(
            "Nothing was done. Ask the user whether {} is right; a service with certificates of \
             its own needs HOLM_CA_FILE.",
            names.url
        )),
        ErrorKind::Protocol => told
            .suggest(format!("Ask the user whether {} is the URL of a holm service.", names.url)),
        ErrorKind::TooLong => told.suggest("Ask for less at once."),
        ErrorKind::Broken | ErrorKind::Silent | ErrorKind::Forbidden => told.suggest(MAYBE_DONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { key: "AAS_API_KEY", url: "HOLM_URL" };

    #[test]
    fn every_failure_says_what_to_do() {
        let check = |failure: Failure, code: &str, next: &str| {
            let error = explain(failure.clone(), &NAMES).expect("for the model");
            assert_eq!(error.code, code, "{failure:?}");
            let suggestion = error.suggestion.unwrap_or_default();
            assert!(suggestion.contains(next), "{failure:?}: {suggestion}");
        };
        let status =
            |status, retry_after| Failure::Refused { status, message: String::new(), retry_after };
        let http = |kind| Failure::Http(Error::new(kind, "x"));
        check(status(401, None), "unauthorized", "AAS_API_KEY");
        check(status(403, None), "forbidden", "HOLM_URL");
        check(status(429, Some(Duration::from_secs(70))), "rate_limited", "Wait 70 s");
        check(status(503, None), "unavailable", "Nothing was done");
        check(status(308, None), "unavailable", "HOLM_URL");
        check(status(404, None), "unavailable", "HOLM_URL");
        check(status(502, None), "unavailable", "may have been done");
        check(http(ErrorKind::Unreachable), "unavailable", "Nothing was done");
        check(http(ErrorKind::Tls), "unavailable", "HOLM_CA_FILE");
        check(http(ErrorKind::Broken), "unavailable", "may have been done");
        check(http(ErrorKind::Silent), "unavailable", "may have been done");
        check(Failure::DefaultLost, "sandbox_gone", "new, empty one");
        let rpc = |code| Failure::Rpc { code, message: "m".into(), data: None };
        check(rpc(UNAUTHORIZED), "unauthorized", "AAS_API_KEY");
        assert_eq!(explain(rpc(-32602), &NAMES).expect_err("the request's").code, -32602);
    }
}
