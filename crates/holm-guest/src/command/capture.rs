//! Output kept within a limit: the first half and the last half, and how much there was.

use holm_wire::guest::Captured;

/// Collects one stream.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it is full; `start` is its oldest byte then.
    tail: Vec<u8>,
    tail_limit: usize,
    start: usize,
    total: u64,
}

impl Capture {
    /// Keeps at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let tail_limit = limit / 2;
        Self {
            head: Vec::new(),
            head_limit: limit - tail_limit,
            tail: Vec::new(),
            tail_limit,
            start: 0,
            total: 0,
        }
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_limit - self.head.len();
        let (first, mut rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        if rest.len() > self.tail_limit {
            rest = &rest[rest.len() - self.tail_limit..];
        }
        if rest.is_empty() {
            return;
        }
        let room = self.tail_limit - self.tail.len();
        let (grow, over) = rest.split_at(room.min(rest.len()));
        self.tail.extend_from_slice(grow);
        let to_end = (self.tail.len() - self.start).min(over.len());
        self.tail[self.start..self.start + to_end].copy_from_slice(&over[..to_end]);
        self.tail[..over.len() - to_end].copy_from_slice(&over[to_end..]);
        self.start = (self.start + over.len()) % self.tail.len();
    }

    /// What was kept. Where something was cut, both parts end and begin at a whole UTF-8
    /// character, so that the cut itself makes no broken one.
    pub fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.start);
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.total {
            self.head.append(&mut self.tail);
        } else {
            self.head.truncate(self.head.len() - unfinished(&self.head));
            let lead = self.tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            self.tail.drain(..lead);
        }
        Captured { head: self.head, tail: self.tail, total: self.total }
    }
}

/// How many bytes at the end begin a UTF-8 character without finishing it.
pub fn unfinished(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let needs = match bytes[bytes.len() - back] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 0,
        };
        return if needs > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: usize, parts: &[&[u8]], head: &[u8], tail: &[u8]) {
        let mut capture = Capture::new(limit);
        for part in parts {
            capture.push(part);
        }
        let total = parts.iter().map(|part| part.len() as u64).sum();
        let want = Captured { head: head.to_vec(), tail: tail.to_vec(), total };
        assert_eq!(capture.finish(), want, "limit {limit}, parts {parts:?}");
    }

    #[test]
    fn head_and_tail_are_kept() {
        check(8, &[], b"", b"");
        check(8, &[b"abc"], b"abc", b"");
        check(8, &[b"abcdefgh"], b"abcdefgh", b"");
        check(8, &[b"abcd", b"efgh"], b"abcdefgh", b"");
        check(8, &[b"abcdefghi"], b"abcd", b"fghi");
        check(8, &[b"abcdef", b"ghi", b"jk"], b"abcd", b"hijk");
        check(8, &[b"abcdefgh", b"0123456789"], b"abcd", b"6789");
        check(7, &[b"abcdefghi"], b"abcd", b"ghi");
        check(1, &[b"abc"], b"a", b"");
        check(2, &[b"a", b"b", b"c"], b"a", b"c");
    }

    #[test]
    fn any_cut_of_the_input_gives_the_same() {
        let text: Vec<u8> = (0..200u8).map(|n| b'a' + n % 26).collect();
        for size in 1..50 {
            let mut capture = Capture::new(64);
            text.chunks(size).for_each(|part| capture.push(part));
            let got = capture.finish();
            assert_eq!(got.head, text[..32], "parts of {size}");
            assert_eq!(got.tail, text[168..], "parts of {size}");
        }
    }

    #[test]
    fn a_cut_leaves_whole_characters() {
        check(8, &["日本語日本語".as_bytes()], "日".as_bytes(), "語".as_bytes());
    }

    #[test]
    fn unfinished_characters_are_found() {
        for (bytes, count) in [
            (&b"abc"[..], 0),
            (b"a\xe2", 1),
            (b"a\xe2\x82", 2),
            (b"a\xe2\x82\xac", 0),
            (b"\xf0\x9f\x98", 3),
            (b"\xff", 0),
            (b"\x80\x80\x80\x80", 0),
            (b"", 0),
        ] {
            assert_eq!(unfinished(bytes), count, "{bytes:?}");
        }
    }
}
