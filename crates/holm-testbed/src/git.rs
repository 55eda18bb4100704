//! Repositories, served by git's own program for web servers; and files beside them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::seen::Request;

/// Where the repositories are, if there are any.
#[derive(Debug, Default)]
pub struct Repositories {
    root: Mutex<Option<PathBuf>>,
    files: Mutex<Option<PathBuf>>,
}

/// Whether a path is one of git's.
pub fn is_git(path: &str) -> bool {
    path.contains(".git/")
}

impl Repositories {
    /// Serves the files in a directory, and a page with links to them, at `/files/`.
    pub fn serve_files(&self, directory: &Path) {
        *self.files.lock().expect("no panic inside") = Some(directory.to_path_buf());
    }

    /// A file, or the page; `None` where there is none.
    pub(crate) fn file(&self, name: &str) -> Option<Vec<u8>> {
        let root = self.files.lock().expect("no panic inside").clone()?;
        if name.is_empty() {
            let names = std::fs::read_dir(root).ok()?.flatten();
            let link = |name: String| format!("<a href=\"{name}\">{name}</a>\n");
            let links: String =
                names.map(|entry| link(entry.file_name().to_string_lossy().into_owned())).collect();
            return Some(
                format!("<!doctype html><html><body>\n{links}</body></html>\n").into_bytes(),
            );
        }
        // Names of files only.
        std::fs::read(root.join(Path::new(name).file_name()?)).ok()
    }

    /// Serves the bare repositories `….git` in a directory.
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
            .env("PATH_INFO", path)
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
