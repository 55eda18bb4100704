//! Streams of events, cut out of the chunks of a body.

use bytes::{Buf as _, BytesMut};

/// Collects chunks and gives the data of whole events. Names, ids and comments say nothing here.
#[derive(Debug)]
pub struct Events {
    buffer: BytesMut,
    /// Bytes of the buffer that hold no line end.
    scanned: usize,
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended with CR: a LF that follows belongs to it.
    after_cr: bool,
    limit: usize,
}

/// An event is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Events {
    /// Events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            limit,
        }
    }

    /// Takes a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The data of the next event that is whole.
    ///
    /// # Errors
    /// When it is too long.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            if self.after_cr && !self.buffer.is_empty() {
                self.after_cr = false;
                if self.buffer[0] == b'\n' {
                    self.buffer.advance(1);
                }
            }
            let end =
                self.buffer[self.scanned..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some(end) = end else {
                self.scanned = self.buffer.len();
                return if self.buffer.len() + self.data.len() > self.limit {
                    Err(TooLong)
                } else {
                    Ok(None)
                };
            };
            let line = self.buffer.split_to(self.scanned + end);
            self.after_cr = self.buffer[0] == b'\r';
            self.buffer.advance(1);
            self.scanned = 0;
            if line.is_empty() {
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(std::mem::take(&mut self.data)));
                }
                continue;
            }
            if let Some(data) =
                line.strip_prefix(b"data:").or((&line[..] == b"data").then_some(b""))
            {
                if self.data.len() + data.len() > self.limit {
                    return Err(TooLong);
                }
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                self.has_data = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&str], expected: &[&str]) {
        let mut events = Events::new(1000);
        let mut got = Vec::new();
        for chunk in chunks {
            events.push(chunk.as_bytes());
            while let Some(data) = events.take().expect("short") {
                got.push(String::from_utf8(data).expect("text"));
            }
        }
        assert_eq!(got, expected, "{chunks:?}");
    }

    #[test]
    fn events_wherever_the_chunks_are_cut() {
        check(&["data: a\n\n"], &["a"]);
        check(&["data: a\r\n\r\ndata:b\r\r"], &["a", "b"]);
        check(&["da", "ta: a", "\r", "\n", "\r", "\n", "data: b\n\n"], &["a", "b"]);
        check(&["event: message\nid: 1\ndata: a\ndata: b\ndata\n\n"], &["a\nb\n"]);
        check(&[": keep-alive\n\n", "\n", "data:  a\n\n"], &[" a"]);
        check(&["data: never ended\n"], &[]);
        check(&["database: no\n\n"], &[]);
    }

    #[test]
    fn long_events_are_refused() {
        for text in ["data: 12345678901\n\n", "data: 123456\ndata: 123456\n\n", "1234567890123"] {
            let mut events = Events::new(10);
            events.push(text.as_bytes());
            assert_eq!(events.take(), Err(TooLong), "{text}");
        }
    }
}
