//! Rules for paths. The kernel resolves them; here is refused what no path can be.

use std::ffi::{CStr, CString};

use crate::errors::{Result, invalid, shorten};

/// The kernel's limit, with the closing NUL.
const MAX_PATH: usize = 4096;
/// The limit for one name.
const MAX_NAME: usize = 255;

/// `path` as an absolute path; a relative one begins at `base`. `..` is left to the kernel, which
/// alone knows what it means after a link and stops at the sandbox's root.
///
/// # Errors
/// `invalid_argument` when it is empty, too long, or holds NUL.
pub fn absolute(path: &str, base: &str) -> Result<CString> {
    absolute_bytes(path.as_bytes(), base)
}

/// The same for names that are not UTF-8.
///
/// # Errors
/// As [`absolute`].
pub fn absolute_bytes(path: &[u8], base: &str) -> Result<CString> {
    let shown = || shorten(&String::from_utf8_lossy(path));
    if path.is_empty() {
        return Err(invalid("the path is empty"));
    }
    if path.contains(&0) {
        return Err(invalid(format!("the path {} holds a NUL byte", shown())));
    }
    if path.split(|byte| *byte == b'/').any(|name| name.len() > MAX_NAME) {
        return Err(invalid(format!(
            "a name in the path {} is longer than {MAX_NAME} bytes",
            shown()
        )));
    }
    let mut full = Vec::new();
    if path[0] != b'/' {
        full.extend_from_slice(base.trim_end_matches('/').as_bytes());
        full.push(b'/');
    }
    full.extend_from_slice(path);
    let clean = clean(&full);
    if clean.len() >= MAX_PATH {
        return Err(invalid(format!("the path {} is longer than {} bytes", shown(), MAX_PATH - 1)));
    }
    CString::new(clean).map_err(|_| invalid("the path holds a NUL byte"))
}

/// Without doubled slashes and single dots. A slash at the end stays: it asks for a directory.
fn clean(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        if !part.is_empty() && part != b"." {
            out.push(b'/');
            out.extend_from_slice(part);
        }
    }
    if out.is_empty() || path.ends_with(b"/") || path.ends_with(b"/.") {
        out.push(b'/');
    }
    out
}

/// Splits into directory and last name; refuses what cannot name a file.
///
/// # Errors
/// `invalid_argument` for `/`, a slash at the end, `.` and `..`.
pub fn split(path: &CStr) -> Result<(CString, CString)> {
    let bytes = path.to_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let (directory, name) = (&bytes[..at], &bytes[(at + 1).min(bytes.len())..]);
    if name.is_empty() || name == b"." || name == b".." {
        return Err(invalid(format!("{} names a directory, not a file", shorten(&show(path)))));
    }
    let directory = if directory.is_empty() { b"/" } else { directory };
    match (CString::new(directory), CString::new(name)) {
        (Ok(directory), Ok(name)) => Ok((directory, name)),
        _ => Err(invalid("the path holds a NUL byte")),
    }
}

/// A path as text; what is not UTF-8 appears as U+FFFD.
pub fn show(path: &CStr) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, want: Option<&str>) {
        let got = absolute(path, "/workspace").ok();
        assert_eq!(got.as_deref().map(show).as_deref(), want, "{path:?}");
    }

    #[test]
    fn paths_become_absolute_or_are_refused() {
        check("a", Some("/workspace/a"));
        check("./a//b/./c", Some("/workspace/a/b/c"));
        check("/a/../b", Some("/a/../b"));
        check("../../x", Some("/workspace/../../x"));
        check("..%2f..%2fx", Some("/workspace/..%2f..%2fx"));
        check("a\\b", Some("/workspace/a\\b"));
        check("a/", Some("/workspace/a/"));
        check(".", Some("/workspace/"));
        check("/", Some("/"));
        check("", None);
        check("a\0b", None);
        check(&"n".repeat(256), None);
        check(&"n/".repeat(3000), None);
        check(&"x".repeat(5000), None);
    }

    #[test]
    fn a_file_needs_a_name() {
        for (path, ok) in
            [("/a", true), ("/a/b", true), ("/", false), ("/a/", false), ("/a/..", false)]
        {
            assert_eq!(split(&CString::new(path).unwrap()).is_ok(), ok, "{path}");
        }
        let (directory, name) = split(c"/a/b/c").unwrap();
        assert_eq!((directory.as_c_str(), name.as_c_str()), (c"/a/b", c"c"));
        assert_eq!(split(c"/a").unwrap().0.as_c_str(), c"/");
    }
}
