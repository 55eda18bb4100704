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
    /// A request of HTTP/0.9 that names a host: it has no version, and many servers still obey it.
    Http09,
    /// Something else.
    Other,
}

/// Looks at the first line, white space before it left out. Where nothing follows any more that ends
/// a line as well, as it does for some servers.
pub(super) fn read(bytes: &[u8], has_ended: bool) -> Line {
    let is_space = |byte: &&u8| byte.is_ascii_whitespace() || **byte == 0x0b;
    let empty = bytes.iter().take_while(is_space).count();
    let bytes = bytes.get(empty..).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    if line.starts_with(b"PRI * HTTP/2") {
        return Line::Http2;
    }
    let is_http = line.windows(5).any(|part| part.eq_ignore_ascii_case(b"http/"));
    if end.is_some() || has_ended {
        return match is_http {
            true => Line::Http,
            false if is_http09(line) => Line::Http09,
            false => Line::Other,
        };
    }
    // No request has another byte in its method, which may be as long as servers like: many answer
    // one that they do not know, and go on. Bytes of a path may be anything.
    let method = line.split(|byte| matches!(byte, b' ' | b'\t')).next().unwrap_or_default();
    if method.iter().all(is_of_method) { Line::Part } else { Line::Other }
}

fn is_of_method(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Whether a line without a version is a request that names its host. `GET /` says no name, as many
/// protocols do; `GET key` is one of a store.
fn is_http09(line: &[u8]) -> bool {
    let gets = line.split_at_checked(3).filter(|(method, _)| method.eq_ignore_ascii_case(b"get"));
    let target = gets.map(|(_, rest)| rest).filter(|rest| matches!(rest, [b' ' | b'\t', ..]));
    target.is_some_and(|target| target.windows(3).any(|part| part == b"://"))
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
            assert_eq!(read(bytes, false), expected, "{shown}");
        };
        check(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Line::Http);
        check(b"GET / HTTP/1.1\r\n", Line::Http);
        check(b"\r\n\r\nget\t/\thttp/1.0\n", Line::Http);
        check(b"M-SEARCH /\xff HTTP/1.1\n", Line::Http);
        check(b"PRI * HTTP/2.0\r\n\r\nSM", Line::Http2);
        check(b"GET http://a.example/\r\n", Line::Http09);
        check(b"\r\nget\tx://a.example/ y\n", Line::Http09);
        check(b"GET http://a.example/", Line::Part);
        check(b"GET /\r\n", Line::Other);
        check(b"GET key\r\n", Line::Other);
        check(b"GET_PARAMETER rtsp://a.example/ RTSP/1.0\r\n", Line::Other);
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
        check(b"{\"jsonrpc\":\"2.0\"", Line::Other);
        check(&[b'A'; 9_000], Line::Part);
        check(&[&[b'A'; 9_000], &b" / HTTP/1.1\r\n"[..]].concat(), Line::Http);
        check(b" \t\x0b\r\nGET / HTTP/1.1\n", Line::Http);
        check(b" \r\n", Line::Part);
        for (bytes, expected) in [
            (&b""[..], Line::Other),
            (b"PING", Line::Other),
            (b"GET http://a.example/", Line::Http09),
            (b"POST http://a.example/ HTTP/1.0", Line::Http),
        ] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(read(bytes, true), expected, "{shown}");
        }
    }
}
