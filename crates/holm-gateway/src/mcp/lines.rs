//! Cuts a byte stream into lines without ever holding more than one line of the limit.
//!
//! A line that is too long is reported at once, then thrown away up to its newline; the line after
//! it is read as any other.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line: 8 MiB, counted without its line end.
pub const MAX_LINE: usize = 8 << 20;

const CHUNK: usize = 64 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// One line without its end (LF or CR LF) and without a byte-order mark. A last line that is
    /// not ended counts too: nothing that arrived is dropped.
    Whole(Bytes),
    /// A line over the limit. The rest of it will be skipped.
    TooLong,
    /// No more input.
    End,
}

/// Reads lines from `source`.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    buffer: BytesMut,
    /// Bytes at the front of `buffer` that are known to hold no newline.
    scanned: usize,
    limit: usize,
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// A reader that refuses lines over `limit` bytes.
    pub fn new(source: R, limit: usize) -> Self {
        let buffer = BytesMut::with_capacity(CHUNK);
        Self { source, buffer, scanned: 0, limit, skipping: false, ended: false }
    }

    /// The next line. Cancel-safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// When the source fails.
    pub async fn next(&mut self) -> std::io::Result<Line> {
        loop {
            if let Some(line) = self.take() {
                return Ok(line);
            }
            if self.ended {
                return Ok(Line::End);
            }
            if self.buffer.capacity() - self.buffer.len() < CHUNK {
                self.buffer.reserve(CHUNK);
            }
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                self.ended = true;
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        let newline = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        if self.skipping {
            let Some(at) = newline else {
                self.buffer.clear();
                self.scanned = 0;
                return None;
            };
            drop(self.buffer.split_to(self.scanned + at + 1));
            self.scanned = 0;
            self.skipping = false;
            return self.take();
        }
        if let Some(at) = newline {
            let line = self.buffer.split_to(self.scanned + at + 1).freeze();
            self.scanned = 0;
            return Some(self.judge(line.slice(..line.len() - 1)));
        }
        self.scanned = self.buffer.len();
        // One byte more than the limit may still be the CR of a line end.
        let over = self.buffer.len().saturating_sub(self.limit);
        if over > 1 || (over == 1 && self.buffer.last() != Some(&b'\r')) {
            self.buffer = BytesMut::with_capacity(CHUNK);
            self.scanned = 0;
            self.skipping = true;
            return Some(Line::TooLong);
        }
        if self.ended && !self.buffer.is_empty() {
            let line = self.buffer.split().freeze();
            self.scanned = 0;
            return Some(self.judge(line));
        }
        None
    }

    fn judge(&self, line: Bytes) -> Line {
        let line = match line.strip_suffix(b"\r") {
            Some(rest) => line.slice(..rest.len()),
            None => line,
        };
        if line.len() > self.limit {
            return Line::TooLong;
        }
        match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(_) => Line::Whole(line.slice(BYTE_ORDER_MARK.len()..)),
            None => Line::Whole(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    /// Gives the chunks one by one, so that the cuts between reads are the test's choice.
    struct Chunks(VecDeque<Vec<u8>>);

    impl AsyncRead for Chunks {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            if let Some(mut chunk) = self.0.pop_front() {
                let rest = chunk.split_off(chunk.len().min(into.remaining()));
                into.put_slice(&chunk);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn check(limit: usize, chunks: &[&[u8]], expected: &[&str]) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let source = Chunks(chunks.iter().map(|chunk| chunk.to_vec()).collect());
        let mut reader = LineReader::new(source, limit);
        let mut got = Vec::new();
        loop {
            match runtime.block_on(reader.next()).expect("readable") {
                Line::Whole(line) => got.push(String::from_utf8_lossy(&line).into_owned()),
                Line::TooLong => got.push("TOO LONG".to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(got, expected, "{chunks:?}");
    }

    #[test]
    fn lines_end_with_lf_or_crlf_wherever_the_reads_fall() {
        check(9, &[b"one\ntwo\r\n\nlast"], &["one", "two", "", "last"]);
        check(9, &[b"on", b"e", b"\n", b"two\r", b"\n"], &["one", "two"]);
        check(9, &[b"a\rb\n"], &["a\rb"]);
        check(9, &[], &[]);
        check(9, &[b"\xef\xbb\xbf{}\n\xef\xbb\xbf"], &["{}", ""]);
    }

    #[test]
    fn case_6_one_byte_over_the_limit_costs_that_line_only() {
        check(
            4,
            &[b"1234\n12345\n1234\r\n12345\r\nok\n"],
            &["1234", "TOO LONG", "1234", "TOO LONG", "ok"],
        );
        for excess in [1, 2, 10, 70, 100_000, 300_000] {
            let long = vec![b'x'; 4 + excess];
            check(4, &[&long, b"\nnext\n"], &["TOO LONG", "next"]);
            check(4, &[&[&long[..], b"\nnext\n"].concat()], &["TOO LONG", "next"]);
            check(4, &[b"xxxx", &long[4..], b"\n", b"next\n"], &["TOO LONG", "next"]);
        }
        check(4, &[b"12345"], &["TOO LONG"]);
        check(4, &[b"1234\r"], &["1234"]);
        check(4, &[b"1234", b"\r", b"5\nok\n"], &["TOO LONG", "ok"]);
    }

    #[test]
    fn memory_stays_bounded_while_a_long_line_is_skipped() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let source = Chunks((0..2000).map(|_| vec![b' '; CHUNK]).chain([b"\n".to_vec()]).collect());
        let mut reader = LineReader::new(source, 1 << 20);
        assert_eq!(runtime.block_on(reader.next()).expect("readable"), Line::TooLong);
        assert_eq!(runtime.block_on(reader.next()).expect("readable"), Line::End);
        assert!(reader.buffer.capacity() <= 4 * CHUNK, "{}", reader.buffer.capacity());
    }
}
