//! What a request can fail with, as it is answered: one table from the engine's kinds to the types
//! and statuses of HTTP, and nothing of it anywhere else.

use holm_engine::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use super::exec::CommandResult;
use super::operations;
use crate::http::access::{Refused, seconds};
use crate::http::body::BodyError;
use crate::http::door::Stopped;
use crate::http::reply::{self, Response};

/// What a 401 tells about the way to authenticate.
const CHALLENGE: &str = "Bearer realm=\"holm\"";
/// Seconds after which it makes sense to try again where nothing better is known.
const RETRY_SECONDS: u64 = 2;

/// A failed request.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub status: u16,
    /// The type: one of [`types`].
    pub name: &'static str,
    /// What happened, to what.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
    /// Seconds after which to try again.
    pub retry_after: Option<u64>,
    /// Methods that the path has, with 405.
    pub allow: Option<Box<str>>,
    /// What is left of the request's body is in the way of the next request.
    pub close: bool,
    /// With `sandbox_gone`: why it ended, and when.
    pub ended: Option<Box<(&'static str, String)>>,
    /// With `sandbox_gone` after a command: what it had written until then.
    pub partial: Option<Box<CommandResult>>,
}

/// The body of a failed request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ErrorDetail {
    /// One of a closed list of words; see the page on errors.
    #[serde(rename = "type")]
    #[schemars(schema_with = "type_schema")]
    pub name: &'static str,
    /// What happened, to what.
    pub message: String,
    /// What to do about it.
    pub suggestion: String,
    /// Names this request in the log of the service.
    pub request_id: String,
    /// With `sandbox_gone`: why the sandbox ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_reason: Option<&'static str>,
    /// With `sandbox_gone`: when it ended (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// With `sandbox_gone` after a command: what it had written until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<Box<CommandResult>>,
}

fn type_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<&str> = types().map(|row| row.name).collect();
    schemars::json_schema!({"type": "string", "enum": names})
}

/// One type of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorType {
    /// Its stable name.
    pub name: &'static str,
    /// The status that it comes with; some come with a closer one (408, 413, 415).
    pub status: u16,
    /// What to do about it.
    pub remedy: &'static str,
}

/// The path is there, the method is not. Only HTTP has this.
const METHOD: ErrorType = ErrorType {
    name: "method_not_allowed",
    status: 405,
    remedy: "Use one of the methods in the `Allow` header.",
};

/// How a kind of the engine's errors is answered.
#[must_use]
pub fn of_kind(kind: ErrorKind) -> ErrorType {
    let status = match kind {
        ErrorKind::InvalidArgument | ErrorKind::SandboxRequired => 400,
        ErrorKind::Unauthorized => 401,
        ErrorKind::InsufficientBalance => 402,
        ErrorKind::Forbidden | ErrorKind::PermissionDenied => 403,
        ErrorKind::NotFound | ErrorKind::TemplateUnknown | ErrorKind::FileNotFound => 404,
        ErrorKind::Conflict
        | ErrorKind::SandboxPaused
        | ErrorKind::LanguageUnavailable
        | ErrorKind::FileInvalid => 409,
        ErrorKind::SandboxGone => 410,
        ErrorKind::TooLarge => 413,
        ErrorKind::QuotaExceeded | ErrorKind::RateLimited => 429,
        ErrorKind::Internal => 500,
        ErrorKind::Unsupported => 501,
        ErrorKind::Capacity | ErrorKind::IsolationUnavailable | ErrorKind::Unavailable => 503,
        ErrorKind::Timeout => 504,
        ErrorKind::OutOfMemory | ErrorKind::DiskFull => 507,
    };
    let name = match kind {
        ErrorKind::InvalidArgument => "invalid_request",
        other => other.as_str(),
    };
    ErrorType { name, status, remedy: kind.remedy() }
}

/// Every type: the closed list.
pub fn types() -> impl Iterator<Item = ErrorType> {
    // The kind that only a protocol with sessions has cannot come here.
    let kinds = ErrorKind::ALL.into_iter().filter(|kind| *kind != ErrorKind::SandboxRequired);
    kinds.map(of_kind).chain([METHOD])
}

impl Failure {
    /// A failure of this kind. What passes by itself says when to try again.
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let passes =
            matches!(kind, ErrorKind::Unavailable | ErrorKind::Capacity | ErrorKind::RateLimited);
        let retry_after = passes.then_some(RETRY_SECONDS);
        Self { retry_after, ..Self::of(of_kind(kind), message) }
    }

    fn of(row: ErrorType, message: impl Into<String>) -> Self {
        Self {
            status: row.status,
            name: row.name,
            message: message.into(),
            suggestion: operations::by_route(row.remedy),
            retry_after: None,
            allow: None,
            close: false,
            ended: None,
            partial: None,
        }
    }

    /// A wrong request.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        let failure = Self::new(ErrorKind::InvalidArgument, message);
        failure.suggest("Correct what the message names and send the request again.")
    }

    /// The same with another suggestion.
    #[must_use]
    pub fn suggest(mut self, suggestion: &str) -> Self {
        suggestion.clone_into(&mut self.suggestion);
        self
    }

    /// No such path.
    #[must_use]
    pub fn unknown_path(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        Self::new(ErrorKind::NotFound, format!("there is nothing at {path}"))
            .suggest("GET /v1/openapi.json lists what there is.")
    }

    /// A path without this method.
    #[must_use]
    pub fn method(allow: String) -> Self {
        let message = format!("this path has no such method; it has {allow}");
        Self { allow: Some(allow.into()), ..Self::of(METHOD, message) }
    }

    /// A body of a kind that is not read here.
    #[must_use]
    pub fn media_type(wanted: &str) -> Self {
        let message = format!("the body must be {wanted}, and Content-Type must say so");
        Self { status: 415, close: true, ..Self::invalid(message) }
    }

    /// No key where one is needed.
    #[must_use]
    pub fn key_missing() -> Self {
        Self::new(ErrorKind::Unauthorized, "this needs an API key")
    }

    /// A call that ended in a way that nobody foresaw.
    #[must_use]
    pub fn panicked() -> Self {
        Self::new(ErrorKind::Internal, "the call ended unexpectedly")
    }

    /// The service goes down.
    #[must_use]
    pub fn going_down() -> Self {
        let text = "the service is going down; the request was stopped";
        let failure = Self::new(ErrorKind::Unavailable, text);
        failure.suggest("Try again when the service is back.")
    }

    /// The answer.
    #[must_use]
    pub fn response(self, request_id: &str) -> Response {
        let (status, allow, close) = (self.status, self.allow.clone(), self.close);
        let retry_after = self.retry_after;
        let mut response = reply::json_bytes(status, encode(&self.body(request_id)));
        if status == 401 {
            response = reply::with(response, "www-authenticate", CHALLENGE);
        }
        if let Some(allow) = allow {
            response = reply::with(response, "allow", &allow);
        }
        if let Some(seconds) = retry_after {
            response = reply::with(response, "retry-after", &seconds.to_string());
        }
        if close {
            response = reply::with(response, "connection", "close");
        }
        response
    }

    /// The body of the answer.
    #[must_use]
    pub fn body(self, request_id: &str) -> ErrorBody {
        let (ended_reason, ended_at) = self.ended.map(|ended| *ended).unzip();
        ErrorBody {
            error: ErrorDetail {
                name: self.name,
                message: self.message,
                suggestion: self.suggestion,
                request_id: request_id.to_owned(),
                ended_reason,
                ended_at,
                partial: self.partial,
            },
        }
    }
}

/// A value of ours as JSON.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Our own types have string keys and no fallible serializers.
    serde_json::to_vec(value).unwrap_or_default()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        // The engine has logged what it could not expect; this is for following single requests.
        if let Some(internal) = &error.internal {
            tracing::debug!(kind = %error.kind, %internal, "a request failed");
        }
        let mut failure = Self::new(error.kind, error.public);
        failure.suggestion = operations::by_route(&error.suggestion);
        failure.ended = error.ended.map(|ended| Box::new((ended.reason.as_str(), ended.at_text())));
        failure.partial = error.partial.map(|partial| Box::new((*partial).into()));
        if let Some(seconds) = error.retry_after {
            failure.retry_after = Some(seconds.get().into());
        }
        failure
    }
}

impl From<Stopped> for Failure {
    fn from(why: Stopped) -> Self {
        let status = why.status();
        let kind = match status {
            400 => ErrorKind::InvalidArgument,
            401 => ErrorKind::Unauthorized,
            403 => ErrorKind::Forbidden,
            429 => ErrorKind::RateLimited,
            _ => ErrorKind::Unavailable,
        };
        let failure = Self::new(kind, why.to_string());
        match why {
            Stopped::ForeignHost | Stopped::ForeignOrigin => failure.suggest(
                "Use the address that the service prints, or have its operator allow this one.",
            ),
            Stopped::Credential(Refused::TooMany(wait)) => {
                Self { retry_after: Some(seconds(wait)), ..failure }
            }
            Stopped::Credential(_) => failure,
        }
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        let message = error.to_string();
        match error {
            BodyError::TooLong(_) => {
                let failure = Self::new(ErrorKind::TooLarge, message);
                let failure = failure.suggest(
                    "Send less in one request; PUT …/files/raw takes files of any size in a stream.",
                );
                Self { close: true, ..failure }
            }
            BodyError::Slow => {
                Self { close: true, status: 408, ..Self::new(ErrorKind::Timeout, message) }
            }
            BodyError::Crowded => Self::new(ErrorKind::Unavailable, message),
            BodyError::Broken => Self::invalid(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_once_and_have_a_status_and_a_remedy() {
        let mut names: Vec<&str> = types().map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for row in types() {
            assert!((400..600).contains(&row.status), "{row:?}");
            assert!(row.remedy.ends_with('.'), "{row:?}");
        }
        for listed in ["invalid_request", "insufficient_balance", "sandbox_gone", "internal"] {
            assert!(names.contains(&listed), "{listed}");
        }
    }
}
