//! Trees of a sandbox as tar streams.

use holm_http::{Parts, with_query};
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{ANSWER_BYTES, Failure, Rest, SILENCE};
use crate::client::{Repeat, Request};
use crate::response::Response;

/// What was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Unpacked {
    /// The directory.
    pub path: String,
    /// Bytes of the stream.
    pub bytes_written: u64,
}

impl Rest {
    /// Whether there is a directory at a path.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub async fn is_directory(
        &self,
        sandbox: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<bool, Failure> {
        let path = uri(sandbox, "list", path, user);
        match self.get::<serde_json::Value>(format!("{path}&limit=1")).await {
            Ok(_) => Ok(true),
            Err(Failure::Refused { kind, .. })
                if matches!(kind.as_str(), "file_not_found" | "file_invalid") =>
            {
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Unpacks a tar stream below a directory.
    ///
    /// # Errors
    /// When the service cannot be reached or refuses.
    pub async fn archive_upload(
        &self,
        sandbox: &str,
        path: &str,
        user: Option<&str>,
        parts: Parts,
    ) -> Result<Unpacked, Failure> {
        let mut request = Request::new(Method::PUT, uri(sandbox, "archive", path, user));
        (request.repeat, request.head_within) = (Repeat::Never, None);
        let request = request.with(CONTENT_TYPE, HeaderValue::from_static("application/x-tar"));
        let answer = self.client.send_parts(request, parts).await.map_err(Failure::Http)?;
        self.read(answer).await
    }

    /// Opens a tree, or one file, as a tar stream.
    ///
    /// # Errors
    /// When the service cannot be reached or refuses.
    pub async fn archive_download(
        &self,
        sandbox: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<Response, Failure> {
        let request = Request::new(Method::GET, uri(sandbox, "archive", path, user));
        let mut answer = self.client.send(request).await.map_err(Failure::Http)?;
        if answer.status == 200 {
            return Ok(answer);
        }
        let body = answer.bytes(ANSWER_BYTES, SILENCE).await.map_err(Failure::Http)?;
        Err(super::refused(answer.status, &body))
    }
}

/// `sandbox` is an id as the service writes it.
fn uri(sandbox: &str, what: &str, path: &str, user: Option<&str>) -> String {
    let mut query = vec![("path", path)];
    query.extend(user.map(|user| ("user", user)));
    with_query(&format!("/v1/sandboxes/{sandbox}/files/{what}"), &query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_value_of_a_query() {
        let want = "/v1/sandboxes/sbx_1/files/list?path=/a%20b%26%3Fc%23%C3%A9&user=root";
        assert_eq!(uri("sbx_1", "list", "/a b&?c#é", Some("root")), want);
    }
}
