//! Repositories, served by git's own program for web servers.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::seen::Request;

/// Where the repositories are, if there are any.
#[derive(Debug, Default)]
pub struct Repositories {
    root: Mutex<Option<PathBuf>>,
}

impl Repositories {
    /// Serves the bare repositories in a directory below `/git/`.
    pub fn serve(&self, root: &Path) {
        *self.root.lock().expect("no panic inside") = Some(root.to_path_buf());
    }

    /// Status, headers and body; `None` where there are no repositories.
    pub(crate) fn answer(
        &self,
        request: &Request,
        body: &[u8],
    ) -> Option<(String, String, Vec<u8>)> {
        let root = self.root.lock().expect("no panic inside").clone()?;
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let header = |name: &str| request.header(name).unwrap_or_default();
        let mut backend = Command::new("git");
        backend
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", path.strip_prefix("/git")?)
            .env("QUERY_STRING", query)
            .env("REQUEST_METHOD", &request.method)
            .env("CONTENT_TYPE", header("content-type"))
            .env("CONTENT_LENGTH", body.len().to_string())
            .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
            .env("GIT_PROTOCOL", header("git-protocol"))
            .env("REMOTE_ADDR", request.connection.from.ip().to_string())
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "safe.directory")
            .env("GIT_CONFIG_VALUE_0", "*")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = backend.spawn().ok()?;
        let mut stdin = child.stdin.take()?;
        // It may answer without reading all.
        let _ = stdin.write_all(body);
        drop(stdin);
        let said = child.wait_with_output().ok()?.stdout;
        let at = said.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&said[..at]).into_owned();
        let status = head.lines().find_map(|line| line.strip_prefix("Status: "));
        let status = status.unwrap_or("200 OK").to_owned();
        let headers: Vec<_> = head.lines().filter(|line| !line.starts_with("Status:")).collect();
        Some((status, headers.join("\r\n"), said[at + 4..].to_vec()))
    }
}
