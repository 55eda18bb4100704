//! The first line of a plain HTTP client. Loosely: what a lenient server takes for a request must
//! not pass as something else.

use crate::policy::HostName;

/// Most bytes until the first line ends.
pub(super) const MOST: usize = 16 * 1024;

/// What the bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Not yet to be told.
    Part,
    /// A request of HTTP/1.
    Http,
    /// The opening of HTTP/2.
    Http2,
    /// Something else.
    Other,
}

/// Looks at the first line, empty ones before it left out.
pub(super) fn read(bytes: &[u8]) -> Line {
    let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let bytes = bytes.get(empty..).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    if line.starts_with(b"PRI * HTTP/2") {
        return Line::Http2;
    }
    let is_http = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"http/"));
    if end.is_some() {
        return if is_http { Line::Http } else { Line::Other };
    }
    // No request has such a byte in its method; bytes of a path may be anything.
    let method = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    let is_method = method.len() <= 64 && method.iter().all(u8::is_ascii_graphic);
    if is_method { Line::Part } else { Line::Other }
}

/// Whether a head is complete.
pub(super) fn has_head(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|part| part == b"\r\n\r\n") || bytes.windows(2).any(|part| part == b"\n\n")
}

/// The host that a head names. Only to tell what may be opened: whoever opens it reads it strictly.
pub(super) fn host(bytes: &[u8]) -> Option<HostName> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let line = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(5)?;
        name.eq_ignore_ascii_case(b"host:").then_some(value)
    })?;
    let value = std::str::from_utf8(line.trim_ascii()).ok()?;
    value.split(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_head_is_found() {
        let check = |head: &str, expected: Option<&str>| {
            assert_eq!(host(head.as_bytes()).as_ref().map(HostName::as_str), expected, "{head:?}");
        };
        check("GET / HTTP/1.1\r\nHOST: A.example:80\r\n\r\n", Some("a.example"));
        check("GET / HTTP/1.1\r\nA: b\r\nhost:a.example\r\n\r\n", Some("a.example"));
        check("GET / HTTP/1.1\r\n\r\n", None);
        check("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", None);
        assert!(
            has_head(b"GET / HTTP/1.1\r\n\r\nmore") && !has_head(b"GET / HTTP/1.1\r\nA: b\r\n")
        );
    }

    #[test]
    fn requests_are_told_from_other_openings() {
        let check = |bytes: &[u8], expected: Line| {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(read(bytes), expected, "{shown}");
        };
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Line::Http);
        check(b"GET / HTTP/1.1\r\n", Line::Http);
        check(b"\r\n\r\nget\t/\thttp/1.0\n", Line::Http);
        check(b"M-SEARCH /\xff HTTP/1.1\n", Line::Http);
        check(b"PRI * HTTP/2.0\r\n\r\nSM", Line::Http2);
        check(b"", Line::Part);
        check(b"\r\n", Line::Part);
        check(b"G", Line::Part);
        check(b"GET / HT", Line::Part);
        check(b"GET / HTTP/1.1", Line::Part);
        check(b"GET /\xff\xfe", Line::Part);
        check(b"EHLO a.example\r\n", Line::Other);
        check(b"SSH-2.0-OpenSSH_9.2\r\n", Line::Other);
        check(b"*1\r\n$4\r\nPING\r\n", Line::Other);
        check(b"\0\0\0\x08\x04\xd2\x16\x2f", Line::Other);
        check(&[b'a'; 65], Line::Other);
    }
}
